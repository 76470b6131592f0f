"use strict";
/* What the tabs about networks share: numbers in words, the choice of a network, its facts, and
   sliders for its input. */

window.NetworkParts = (() => {
  const { element, select, slider } = Play;

  /* 0.333, 12, 2.1e-11 */
  const number = (value) => {
    const size = Math.abs(value);
    if (value === 0 || (Number.isInteger(value) && size < 1e5)) return String(value);
    if (size < 1e-3 || size >= 1e5) return value.toExponential(1);
    return String(Number(value.toPrecision(3)));
  };

  /* Four digits, rounded up for bounds and down for errors that were seen: nothing is shown as more
     than it is. */
  const rounded = (round) => (value) => {
    if (value === 0) return "0";
    const exponent = Math.floor(Math.log10(value));
    const text = Number(`${round(value / 10 ** (exponent - 3))}e${exponent - 3}`);
    return exponent < -3 ? text.toExponential() : String(text);
  };
  const bound = rounded(Math.ceil);
  const seen = rounded(Math.floor);

  /* The text in parts for an element, with each "5.5e-17" and "98 %" in a span that keeps it on
     one line. */
  const prose = (text) => text.split(/(\d[\d.]*(?:e-\d+| %))/).map((part, at) =>
    (at % 2 ? element("span", { class: "network-number" }, part) : part));

  /* A select of all networks, which grows when one is added. Returns {node, input}. */
  const choice = ({ value, onchange }) => {
    const options = () => Blocks.all().map(({ name }) => [name, name]);
    const made = select({ label: "Network", options: options(), value, onchange });
    Blocks.onput(() => {
      const chosen = made.input.value;
      made.input.replaceChildren(
        ...options().map(([name, text]) => element("option", { value: name }, text)),
      );
      made.input.value = chosen;
    });
    return made;
  };

  /* What it is, in a list. */
  const facts = (data) => {
    const proved = data.upper === null
      ? `not proved (the largest error found is ${seen(data.lower)})`
      : `at most ${bound(data.upper)} for every input in [0, 1], proved`;
    const rows = [
      ["Function", element("code", {}, data.formula)],
      ["Design", data.design],
      ["Size", `${data.layers.length} layers, width ${data.width}, ${data.parameters.toLocaleString("en")} parameters`],
      ["Error", proved],
    ];
    return element("dl", { class: "network-facts" },
      ...rows.flatMap(([name, text]) => [element("dt", {}, name), element("dd", {}, ...(typeof text === "string" ? prose(text) : [text]))]));
  };

  /* A slider for every token. Returns {node, fields, x, set(x)}; onchange(x) follows each move. */
  const inputs = ({ tokens, value, onchange }) => {
    const x = [...value];
    const fields = x.map((start, at) => slider({
      label: `Token ${at}`, min: 0, max: 1, step: 0.001, value: start,
      text: (moved) => moved.toFixed(3),
      oninput: (moved) => {
        x[at] = moved;
        onchange([...x]);
      },
    }));
    const set = (values) => {
      values.forEach((one, at) => {
        x[at] = one;
        fields[at].set(one);
      });
      onchange([...x]);
    };
    const node = element("div", { class: "network-inputs", role: "group", "aria-label": `Input of ${tokens} tokens` },
      ...fields.map((field) => field.node));
    return { node, fields, x: () => [...x], set };
  };

  /* Inputs worth a try. */
  const presets = (tokens) => [
    ["Random", () => Array.from({ length: tokens }, () => Math.round(1000 * Math.random()) / 1000)],
    ["Equal tokens", () => Array(tokens).fill(0.6)],
    ["Ascending", () => Array.from({ length: tokens }, (_, at) => (at + 0.5) / tokens)],
    ["Descending", () => Array.from({ length: tokens }, (_, at) => 1 - (at + 0.5) / tokens)],
  ];

  return { number, bound, seen, prose, choice, facts, inputs, presets };
})();
