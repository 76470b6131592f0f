"use strict";
/* The mask of one layer: a pattern to choose, its numbers, and the grid to paint. */

window.Design = window.Design ?? {};

Design.layer = (() => {
  const { element, select, slider, checkbox } = Play;
  const { patterns } = Design;
  const PAINTED = "painted";
  const MOST = 12;

  /* pick(pattern), paint(i, j, value): the reader's changes. Returns {node, show(layer, names)}. */
  const layer = ({ title, pick, paint }) => {
    let pattern = null;
    const named = Object.entries(patterns.NAMED).map(([name, one]) => [name, one.title]);
    const options = [...named, [PAINTED, "Painted by hand"]];
    const choice = select({ label: `${title}: pattern`, options, value: PAINTED, onchange: (name) => {
      if (name !== PAINTED) pick({ ...patterns.named(name), causal: pattern?.causal ?? false });
    } });
    const numbers = element("div", { class: "design-numbers" });
    const causal = checkbox({
      label: `${title}: earlier tokens only (causal)`, checked: false,
      onchange: (yes) => pick({ ...pattern, causal: yes }),
    });
    const grid = Design.grid.grid({ label: `${title}: rows attend to columns`, paint });

    const alone = element("p", { class: "small design-alone" });
    const showAlone = ({ mask }, names) => {
      const apart = (i) => mask.every((row, j) => row[i] === (i === j) && mask[i][j] === (i === j));
      const found = pattern === null ? names.filter((_, i) => apart(i)) : [];
      alone.hidden = found.length === 0;
      alone.textContent = found.length === 1
        ? `Token ${found[0]} attends to itself only: paint on.`
        : `Tokens ${found.join(", ")} attend to themselves only: paint on.`;
    };

    const showNumbers = () => {
      const takes = pattern ? patterns.NAMED[pattern.name].takes : [];
      numbers.replaceChildren(...takes.map(({ label, least }, at) => slider({
        label: `${title}: ${label.toLowerCase()}`, min: least, max: MOST, value: pattern.numbers[at],
        oninput: (value) => pick({ ...pattern, numbers: pattern.numbers.with(at, value) }),
      }).node));
      numbers.hidden = takes.length === 0;
    };

    const show = (now, names) => {
      const another = now.pattern?.name !== pattern?.name;
      pattern = now.pattern;
      choice.input.value = pattern?.name ?? PAINTED;
      causal.node.hidden = pattern === null || pattern.name === "causal";
      causal.input.checked = pattern?.causal ?? false;
      if (another) showNumbers();
      grid.show(now.mask, names);
      showAlone(now, names);
    };

    // what painting hides stands below the grid, which must not move under the pointer
    const node = element("div", { class: "design-layer" }, choice.node, grid.node, alone,
      element("p", { class: "soft small" },
        "Rows attend to columns. Click or drag to paint, or use the arrow keys and space."),
      numbers, causal.node);
    return { node, show };
  };

  return { layer };
})();
