"use strict";
/* The tab "Design": choose a design, see what is proved of it, and why. */

Play.tab("design", "Design", (panel) => {
  const { element, select, slider, checkbox, calm, announce } = Play;
  const { state: states, verdict } = Design;

  const upTo = (many) => Array.from({ length: many }, (_, i) => i);
  const note = (text) => element("p", { class: "soft small" }, text);

  let state = states.begin();
  const asked = { norm: "sup", target: "all" };

  /* ---- what the reader chooses ---- */

  const set = (next) => {
    state = next;
    announce(show());
  };
  const change = (values) => set(states.changed(state, values));

  const tokens = slider({
    label: "Tokens", min: 2, max: verdict.MOST_TOKENS, value: state.tokens,
    oninput: (value) => change({ tokens: value }),
  });
  const position = select({
    label: "Positions", value: state.position,
    options: Object.entries(Design.positions.NAMED).map(([name, { title }]) => [name, title]),
    onchange: (value) => change({ position: value }),
  });
  const depth = select({
    label: "Depth", value: "any",
    options: [["any", "Any"], ...upTo(12).map((i) => [String(i + 1), verdict.layersText(i + 1)])],
    onchange: (value) => change({ depth: value === "any" ? null : Number(value) }),
  });
  const bos = checkbox({
    label: "BOS token first", checked: state.bos, onchange: (value) => change({ bos: value }),
  });
  const second = checkbox({
    label: "Every other layer has a mask of its own", checked: false,
    onchange: (value) => set(states.alternating(state, value)),
  });
  const layers = ["Mask", "Second mask"].map((title, at) => Design.layer.layer({
    title,
    pick: (pattern) => set(states.withPattern(state, at, pattern)),
    paint: (i, j, value) => set(states.painted(state, at, i, j, value)),
  }));
  const choices = element("section", { class: "card design-choices", "aria-label": "The design" },
    element("div", { class: "design-fields" }, tokens.node, position.node, depth.node, bos.node),
    layers[0].node, second.node, layers[1].node);

  /* ---- what follows ---- */

  const card = Design.card.card({
    choose: (norm, target) => { Object.assign(asked, { norm, target }); announce(show()); },
    play: () => {
      witness.scrollIntoView({ behavior: calm() ? "auto" : "smooth", block: "center" });
      witness.focus({ preventScroll: true });
    },
    repair: (repaired) => set(repaired),
  });
  const reach = Design.pictures.reach();
  const colours = Design.pictures.colours();
  const pictures = element("div", { class: "design-pair" },
    element("section", { class: "card", "aria-label": "Reach" }, element("h2", {}, "Reach"),
      note("The number in row k, column j is the layer after which token j has reached token k: output k can "
        + "depend on it from then on."),
      reach.node,
      note("Blue: reached in the layer shown. Pale: in an earlier one. Blank: not yet; in the last step, never.")),
    element("section", { class: "card", "aria-label": "Positions" },
      element("h2", {}, "Positions on identical tokens"),
      note("Let all tokens be equal. Positions with the same letter get equal vectors in every network; each "
        + "layer may split a class."),
      colours.node));
  const stage = Design.stage.stage();
  const witness = element("section", { class: "card", "aria-label": "Witness", tabindex: -1 },
    element("h2", {}, "Play the witness"), stage.node);

  const show = () => {
    tokens.set(state.tokens);
    position.input.value = state.position;
    depth.input.value = state.depth ?? "any";
    bos.input.checked = state.bos;
    second.input.checked = state.layers.length > 1;
    layers[1].node.hidden = state.layers.length === 1;
    choices.classList.toggle("one-mask", state.layers.length === 1); // short enough to stay in sight
    const names = [...(state.bos ? ["BOS"] : []), ...upTo(state.tokens).map(String)];
    state.layers.forEach((layer, at) => layers[at].show(layer, names));

    const checked = verdict.check(states.design(state));
    const answer = checked.answers[`${asked.norm} ${asked.target}`];
    const said = card.show(checked, asked, answer.universal ? [] : Design.repairs.repairs(state, asked));
    reach.update(checked);
    colours.update(checked);
    const played = Design.witness.of(checked.design, answer);
    witness.hidden = played === null;
    if (played !== null) stage.update(played);
    return said;
  };

  panel.append(
    element("div", { class: "design-intro" },
      element("h1", {}, "What can this design express?"),
      element("p", { class: "soft" }, "Choose which tokens each token attends to, and what tells them where they "
        + "are. The answers are proved, for softmax attention with feed-forward layers of any width.")),
    element("div", { class: "design-columns" }, choices,
      element("div", { class: "design-results" }, card.node, pictures)),
    witness,
    ...(window.ANYSEQ_SERVER ? [Design.library.node()] : []),
    Design.words.node(),
  );
  show();
});
