"use strict";
/* The witness on stage: the inputs as bars, the two outputs that must be one number y, and a slider
   for y. However y is chosen, the error stays above the least one. */

window.Design = window.Design ?? {};

Design.stage = (() => {
  const { element, svg, slider } = Play;
  const rounded = (value) => String(Number(value.toFixed(3)));
  const roundedDown = (bound) => String(Math.floor(bound * 1000 + 1e-9) / 1000); // a bound stays one

  /* One input as bars; `claimed` are the positions whose outputs are compared. */
  const bars = ({ name, tokens, marked }, claimed) => {
    const [wide, high, gap] = [30, 74, 7];
    const picture = svg("svg", {
      class: "design-bars", role: "img", viewBox: `0 0 ${tokens.length * wide} ${high + 24}`,
      "aria-label": `${name}: ${tokens.map(rounded).join(", ")}`,
    });
    picture.style.maxWidth = `${tokens.length * wide * 1.1}px`;
    tokens.forEach((value, i) => {
      const height = Math.max(2, value * high);
      const isClaimed = claimed.includes(i);
      const box = { x: i * wide + gap / 2, width: wide - gap, rx: 4 };
      const name = { x: (i + 0.5) * wide, y: high + 14, "text-anchor": "middle", class: isClaimed && "claimed" };
      picture.append(
        svg("rect", { ...box, y: 0, height: high, class: "bar-back" }),
        svg("rect", { ...box, y: high - height, height, class: i === marked ? "bar marked" : "bar" }),
        svg("text", name, String(i)),
      );
      if (!isClaimed) return;
      const mark = { x: i * wide + 5, y: high + 20, width: wide - 10, height: 2.5, class: "claim-mark" };
      picture.append(svg("rect", mark));
    });
    return element("figure", { class: "design-input" }, element("figcaption", {}, name), picture);
  };

  /* A line from the least to the most, what f wants on it, and y. */
  const line = ([least, most], claims, y) => {
    const [left, right, middle] = [24, 316, 48];
    const at = (value) => left + ((value - least) / (most - least)) * (right - left);
    const close = Math.abs(at(claims[0].wanted) - at(claims[1].wanted)) < 50; // one below the other
    const viewBox = `0 0 340 ${close ? 98 : 84}`;
    const picture = svg("svg", { class: "design-line", viewBox, "aria-hidden": "true" });
    picture.append(svg("line", { x1: left, x2: right, y1: middle, y2: middle, class: "axis" }));
    claims.forEach(({ wanted }, index) => {
      const x = at(wanted);
      const level = middle + 5 - 10 * index;
      picture.append(
        svg("line", { x1: at(y), x2: x, y1: level, y2: level, class: `gap gap-${index}` }),
        svg("circle", { cx: x, cy: middle, r: 7, class: `wanted wanted-${index}` }),
        svg("text", { x, y: close && index ? 92 : 78, "text-anchor": "middle" }, `f: ${rounded(wanted)}`),
      );
    });
    picture.append(
      svg("path", { d: `M ${at(y)} ${middle - 9} l -7 -11 h 14 z`, class: "given" }),
      svg("text", { x: Math.max(48, Math.min(292, at(y))), y: 18, "text-anchor": "middle", class: "given-text" },
        `network: ${rounded(y)}`),
    );
    return picture;
  };

  /* Returns {node, update(witness)}. */
  const stage = () => {
    const node = element("div", { class: "design-stage" });

    const update = (witness) => {
      const values = witness.free.map(({ usual }) => usual);
      let y = (witness.range[0] + witness.range[1]) / 2;

      const inputs = element("div", { class: "design-inputs" });
      const picture = element("div");
      const errors = element("dl", { class: "design-errors" });
      const show = () => {
        const claims = witness.claims(values);
        const now = witness.inputs(values);
        inputs.replaceChildren(...now.map((input, at) =>
          bars(input, claims.filter((claim) => claim.input === at).map(({ place }) => place))));
        picture.replaceChildren(line(witness.range, claims, y));
        const rows = claims.map(({ input, place, wanted }) => [
          `Output ${place}${now.length > 1 ? ` of ${"AB"[input]}` : ""}: f is ${rounded(wanted)}`,
          `off by ${rounded(Math.abs(y - wanted))}`,
        ]);
        const [error, least] = [witness.error(y, claims), witness.least(claims)];
        rows.push([witness.name, `${rounded(error)}, never below ${roundedDown(least)}`]);
        errors.replaceChildren(...rows.map(([term, value]) =>
          element("div", {}, element("dt", {}, term), element("dd", {}, value))));
      };
      const free = witness.free.map(({ label, least, most, step, usual }, at) => slider({
        label, min: least, max: most, step, value: usual,
        oninput: (value) => { values[at] = value; show(); },
      }).node);
      const [low, high] = witness.range;
      const output = slider({
        label: "What the network gives for both", min: low, max: high, step: (high - low) / 40, value: y,
        text: rounded,
        oninput: (value) => { y = value; show(); },
      });
      output.node.classList.add("design-output");
      node.replaceChildren(
        element("div", { class: "design-given" }, element("p", {}, witness.why), inputs, ...free),
        element("div", { class: "design-wanted" },
          element("h3", {}, witness.f), picture, output.node, errors, element("p", {}, witness.conclusion)),
      );
      show();
    };

    return { node, update };
  };

  return { stage };
})();
