"use strict";
/* With `anyseq play` behind the page: the same question for any pattern, position and probability
   map that the library knows, and for more tokens. */

window.Design = window.Design ?? {};

Design.library = (() => {
  const { element, field, checkbox } = Play;
  const WORDS = { true: ["Yes", "yes"], false: ["No", "no"], null: ["Not known", "unknown"] };
  const FUNCTIONS = {
    all: "Every function", causal: "Every causal function", equivariant: "Every equivariant function",
  };
  const NORMS = { sup: "on every input (sup norm)", lp: "on almost every input (Lᵖ)" };

  const answer = ({ norm, target, universal, headline, findings }) => {
    const [word, kind] = WORDS[String(universal)];
    return element("article", { class: "design-asked" },
      element("h3", {}, `${FUNCTIONS[target]} ${NORMS[norm]}: `, element("span", { "data-answer": kind }, word)),
      element("p", {}, headline),
      element("details", {}, element("summary", { class: "soft small" }, "What was found"),
        element("ul", { class: "design-findings" }, ...findings.map(({ rule, saw, theorem }) =>
          element("li", {}, `${rule}: ${saw} (${theorem})`)))));
  };

  const meeting = (reach) => {
    const open = reach[reach.length - 1].flat().filter((met) => !met).length;
    const layers = Design.verdict.layersText(reach.length - 1);
    if (open === 0) return `Every token reaches every token in ${layers}.`;
    return `After ${layers} ${open} pairs have not met.`;
  };

  const classes = (colours) => {
    const last = colours[colours.length - 1];
    const many = new Set(last).size;
    if (many === last.length) return "On identical tokens all positions differ.";
    return `On identical tokens there ${many === 1 ? "is 1 class" : `are ${many} classes`} of positions.`;
  };

  const node = () => {
    const line = (label, value) => field({ label, type: "text", maxlength: 200, value, required: true });
    const pattern = line("Pattern", "window(2) | global(0)");
    const position = line("Positions", "rope");
    const map = line("Probability map", "softmax");
    const tokens = field({ label: "Tokens", type: "number", min: 1, max: 64, value: 32, required: true });
    const depth = field({ label: "Depth (empty: any)", type: "number", min: 1 });
    const bos = checkbox({ label: "BOS token first", checked: false, onchange: () => {} });
    const said = element("div", { class: "design-said-by-library", role: "status" });

    const ask = async (event) => {
      event.preventDefault();
      said.replaceChildren(element("p", { class: "soft" }, "Asking the library …"));
      try {
        const { verdicts, reach, colours } = await Play.ask("api/check", {
          tokens: tokens.input.valueAsNumber, bos: bos.input.checked,
          depth: depth.input.value ? depth.input.valueAsNumber : null,
          pattern: pattern.input.value, position: position.input.value, prob_map: map.input.value,
        });
        said.replaceChildren(element("p", {}, `${meeting(reach)} ${classes(colours)}`), ...verdicts.map(answer));
      } catch (problem) {
        said.replaceChildren(element("p", { class: "design-problem" }, problem.message));
      }
    };

    const form = element("form", { class: "design-ask", onsubmit: ask },
      ...[pattern, position, map, tokens, depth, bos].map((one) => one.node),
      element("button", { type: "submit", class: "primary" }, "Check"));
    return element("section", { class: "card", "aria-label": "The library" },
      element("h2", {}, "Ask the library"),
      element("p", { class: "soft" }, "Any pattern of the library, such as ",
        element("code", {}, "causal & window(4)"), " or ", element("code", {}, "longformer(2)"),
        "; any positions and probability map; up to 64 tokens."),
      form, said);
  };

  return { node };
})();
