"use strict";
/* Two pictures that grow: which pairs of tokens have met after so many layers, and the classes of
   positions on identical tokens after so many rounds. Each says in words what it shows. */

window.Design = window.Design ?? {};

Design.pictures = (() => {
  const { element, svg, player } = Play;
  const { layersText } = Design.verdict;
  const CELL = 26;
  const MARGIN = 30;
  const COLUMN = 33;
  const KINDS = 6; // colours of the style sheet

  const text = (x, y, words, more = {}) =>
    svg("text", { x, y, "text-anchor": "middle", "dominant-baseline": "central", ...more }, words);

  /* A picture with steps. update({last, draw, words, label}) shows another design, at its end. */
  const stepped = ({ label, stepText }) => {
    const picture = svg("svg", { class: "design-picture", role: "img" });
    const said = element("p", { class: "design-said" });
    let shown = null;
    const show = (step) => {
      if (shown === null) return;
      const words = shown.words(step);
      picture.setAttribute("aria-label", `${label}. ${words}`);
      said.textContent = words;
      shown.draw(picture, step);
    };
    const steps = player({ label, last: 0, text: stepText, show });
    const update = (next) => {
      shown = next;
      picture.setAttribute("viewBox", `0 0 ${next.width} ${next.height}`);
      picture.style.maxWidth = `${next.width}px`;
      steps.node.hidden = next.last === 0; // there is nothing to step through
      steps.reset(next.last, next.last);
    };
    return { node: element("div", { class: "design-steps" }, picture, said, steps.node), update };
  };

  /* ---- reach ---- */

  const reach = () => {
    const made = stepped({ label: "Reach, layer by layer", stepText: (step) => `after ${layersText(step)}` });
    const update = ({ design, reach: found }) => {
      const { tokens, bos, depth } = design;
      const first = Number(bos);
      const history = found.all.history.slice(0, depth === null ? undefined : depth + 1);
      const arrivals = Array.from({ length: tokens }, (_, k) => Array.from({ length: tokens }, (__, j) =>
        history.findIndex((sets) => (sets[k + first] >> (j + first)) & 1)));
      const last = Math.max(...arrivals.flat()); // BOS may still be on its way
      const draw = (picture, step) => {
        const parts = [];
        for (let k = 0; k < tokens; k++) {
          const middle = MARGIN + (k + 0.5) * CELL;
          parts.push(text(MARGIN - 12, middle, k), text(middle, MARGIN - 12, k));
          for (let j = 0; j < tokens; j++) {
            const layer = arrivals[k][j];
            const kind = layer < 0 || layer > step ? "not" : layer === step ? "new" : "held";
            const [x, y] = [MARGIN + j * CELL, MARGIN + k * CELL];
            const box = { x: x + 1, y: y + 1, width: CELL - 2, height: CELL - 2, rx: 4 };
            parts.push(svg("rect", { ...box, class: `reach-${kind}` }));
            if (kind === "not") continue;
            parts.push(text(x + CELL / 2, y + CELL / 2, layer, { class: `reach-${kind}-text` }));
          }
        }
        picture.replaceChildren(...parts);
      };
      const words = (step) => {
        const open = Design.reach.missing(design, "all", history[step]);
        const met = tokens ** 2 - open.length;
        if (open.length === 0) return `After ${layersText(step)} every token has reached every token.`;
        const [k, j] = open[0];
        const never = step === last && found.all.layers === null && depth === null;
        const how = never ? "never reaches" : "has not reached";
        return `After ${layersText(step)}, ${met} of ${tokens ** 2} pairs have met; token ${j} ${how} token ${k}.`;
      };
      const side = MARGIN + tokens * CELL + 4;
      made.update({ last, draw, words, width: side, height: side });
    };
    return { node: made.node, update };
  };

  /* ---- colours ---- */

  /* Names of classes that stay: of a class that splits, the part with its first member keeps its
     name, the others get new ones. */
  const named = (history, first) => {
    let many = 0;
    let before = null;
    return history.map((colours) => {
      const tokens = colours.slice(first);
      const taken = new Map();
      const names = tokens.map((colour, i) => {
        if (taken.has(colour)) return taken.get(colour);
        const old = before?.[i];
        const name = old !== undefined && ![...taken.values()].includes(old) ? old : many++;
        taken.set(colour, name);
        return name;
      });
      before = names;
      return names;
    });
  };

  const colours = () => {
    const when = (step) => (step === 0 ? "before the first layer" : `after ${layersText(step)}`);
    const made = stepped({ label: "Position classes, round by round", stepText: when });
    const update = ({ design, refinement, position }) => {
      const first = Number(design.bos);
      const { tokens } = design;
      const classes = named(refinement.history, first);
      const [left, top, row] = [60, 26, 36];
      const draw = (picture, step) => {
        const parts = [];
        for (let i = 0; i < tokens; i++) parts.push(text(left + (i + 0.5) * COLUMN, top - 12, i));
        for (let round = 0; round <= step; round++) {
          const y = top + (round + 0.5) * row;
          parts.push(text(left - 12, y, round === 0 ? "start" : `layer ${round}`, { "text-anchor": "end" }));
          classes[round].forEach((name, i) => {
            const x = left + (i + 0.5) * COLUMN;
            parts.push(svg("circle", { cx: x, cy: y, r: 14, class: `kind-${name % KINDS}` }));
            parts.push(text(x, y, String.fromCharCode(65 + name), { class: "design-letter" }));
          });
        }
        picture.replaceChildren(...parts);
      };
      const words = (step) => {
        const many = new Set(classes[step]).size;
        if (position.atInput) return "Every token has its position at the input: all differ.";
        if (many === tokens) return `All ${tokens} positions differ ${when(step)}, also on identical tokens.`;
        const now = `${many} ${many === 1 ? "class" : "classes"} of positions on identical tokens.`;
        if (step < classes.length - 1) return now;
        const [i, other] = refinement.stuck;
        const within = design.depth === null ? "" : ` within depth ${design.depth}`;
        return `${now} Tokens ${i} and ${other} stay alike${within}.`;
      };
      const [width, height] = [left + tokens * COLUMN + 4, top + classes.length * row + 4];
      made.update({ last: classes.length - 1, draw, words, width, height });
    };
    return { node: made.node, update };
  };

  return { colours, reach };
})();
