"use strict";
/* The form that asks the library behind `anyseq play` for a network; a hint where there is none. */

window.NetworkAsk = (() => {
  const { element, select, field, ask } = Play;

  const hint = () => element("section", { class: "card" },
    element("h2", {}, "A function of your own"),
    element("p", {}, "Run ", element("code", {}, "anyseq play"), " in a terminal: it opens this page with the "
      + "library behind it, and turns a formula that you type into a network with its proven error."));

  const EXAMPLES = [
    "max(x[0], x[1]) + 0.5*sin(3*x[i])",
    "abs(x[i] - mean(x))",
    "sort(x)[n-1-i]",
    "x[i]*x[i+1] if i < n-1 else x[i]",
  ];

  const positions = ["absolute", "none", "sinusoidal", "rope", "alibi", "t5", "relative", "urpe", "urpe(rope)"];

  /* onmade(data) gets each network that is built. */
  const section = (onmade) => {
    if (!window.ANYSEQ_SERVER) return hint();
    const formula = field({ label: "Formula for the output of token i", type: "text", maxlength: 300, value: EXAMPLES[0] });
    const tokens = field({ label: "Tokens", type: "number", min: 1, max: 6, value: 2 });
    const tol = field({ label: "Tolerance", type: "number", min: 0.001, max: 10, step: "any", value: 0.1 });
    const pattern = field({ label: "Pattern", type: "text", maxlength: 200, value: "full" });
    const position = select({ label: "Positions", options: positions.map((name) => [name, name]), value: "absolute", onchange: () => {} });
    const said = element("div", { class: "network-said", role: "status", "aria-live": "polite" });
    const button = element("button", { type: "submit", class: "primary" }, "Build the network");

    const show = (...lines) => said.replaceChildren(...lines);
    const submit = async (event) => {
      event.preventDefault();
      if (button.getAttribute("aria-disabled") === "true") return;
      button.setAttribute("aria-disabled", "true");
      show(element("p", { class: "soft" }, "Building ..."));
      try {
        const made = await ask("/api/approximate", {
          formula: formula.input.value, tokens: tokens.input.valueAsNumber, tol: tol.input.valueAsNumber,
          pattern: pattern.input.value, position: position.input.value,
        });
        if (made.network) {
          const { layers, upper } = made.network;
          const proof = upper === null ? "no error is proved" : `error at most ${NetworkParts.bound(upper)}, proved`;
          show(element("p", {}, `Built: ${layers.length} layers, ${proof}.`), ...made.notes.map((note) => element("p", { class: "small soft" }, note)));
          onmade(made.network);
        } else {
          show(element("p", {}, element("strong", {}, `Refused: ${made.refused}`)),
            element("ul", {}, ...made.reasons.map((reason) => element("li", {}, reason))));
        }
      } catch (problem) {
        show(element("p", { class: "network-problem" }, problem.message));
      } finally {
        button.removeAttribute("aria-disabled");
      }
    };

    const examples = EXAMPLES.map((text) => element("button", {
      type: "button", class: "quiet", onclick: () => { formula.input.value = text; formula.input.focus(); },
    }, element("code", {}, text)));
    return element("section", { class: "card" },
      element("h2", {}, "A function of your own"),
      element("p", { class: "soft" }, "x is the sequence, x[i] this token, counted from 0, n how many there are; "
        + "+ - * / **, sin cos exp log sqrt abs tanh sigmoid relu, max min sum mean sort."),
      element("form", { class: "network-form", onsubmit: submit },
        formula.node, element("div", { class: "network-examples" }, ...examples),
        element("div", { class: "network-fields" }, tokens.node, tol.node, pattern.node, position.node),
        element("div", { class: "buttons" }, button)),
      said);
  };

  return { section };
})();
