"use strict";
/* Places that are alike when all tokens differ: what obstructs a design in L^p.

   Let R_i be the positions that reach i. A rooted isomorphism (R_i, i) -> (R_i', i') maps what each
   u of R_i attends to, in every layer, onto what its image attends to, and keeps starting colours,
   gain labels and bias labels, the latter up to what softmax cannot see: a label that a whole row
   shares, with ALiBi a constant in the distances of a row. A design is rigid if there is none
   between two different tokens (docs/theorems.md, Theorem 2). */

window.Design = window.Design ?? {};

Design.symmetry = (() => {
  const MOST_TRIES = 200_000;

  class GivenUp extends Error {}

  /* One matrix for each layer of the cycle: the label of a pair as far as it can be seen, or null
     where i does not attend to j. */
  const relations = ({ masks, position }) => {
    const { bias, gain, sloped } = Design.positions.NAMED[position];
    return masks.map((mask) => mask.map((row, i) => {
      const labels = row.flatMap((yes, j) => (yes ? [bias(i - j)] : []));
      const [low, high] = [Math.min(...labels), Math.max(...labels)];
      const shown = (r) => (sloped ? r - low : low === high ? "one" : r);
      return row.map((yes, j) => (yes ? `${shown(bias(i - j))};${gain(i - j)}` : null));
    }));
  };

  /* The labels and colours of all that i attends to, in any order. */
  const around = (labels, i, colours) =>
    labels[i].flatMap((label, j) => (label === null ? [] : [`${label}/${colours[j]}`])).sort().join(" ");

  /* Colours that take in what is around until nothing new is seen. */
  const stable = (graph, begin) => {
    const see = (all, i, colours) => all.map((labels) => around(labels, i, colours)).join("|");
    const history = Design.refinement.rounds(begin, [graph], null, see);
    return history[history.length - 1];
  };

  const closed = (graph, root) => {
    const inside = new Set([root]);
    for (const i of inside) // grows while it is walked through
      for (const labels of graph) labels[i].forEach((label, j) => { if (label !== null) inside.add(j); });
    return [...inside].sort((a, b) => a - b);
  };

  /* The parts of a graph side by side, each with its own vertices: for colours to compare. */
  const beside = (graph, ours, theirs) => {
    const all = [...ours.map((u) => [0, u]), ...theirs.map((v) => [1, v])];
    return graph.map((labels) =>
      all.map(([side, u]) => all.map(([other, v]) => (side === other ? labels[u][v] : null))));
  };

  /* A rooted isomorphism as a Map from R_i onto R_other with i -> other; null if there is none. */
  const find = (graph, begin, i, other) => {
    const [ours, theirs] = [closed(graph, i), closed(graph, other)];
    if (ours.length !== theirs.length) return null;
    const marked = (members, root) => members.map((u) => `${begin[u]} ${u === root}`);
    const colours = stable(beside(graph, ours, theirs), [...marked(ours, i), ...marked(theirs, other)]);
    const alike = (colour) => theirs.filter((_, at) => colours[ours.length + at] === colour);
    const choices = new Map(ours.map((u, at) => [u, alike(colours[at])]));
    // those with the fewest choices first; who may stay where it is does
    const order = [...ours].sort((a, b) => choices.get(a).length - choices.get(b).length);
    const [image, taken] = [new Map(), new Set()];
    let tries = 0;

    const fits = (u, v) => graph.every((labels) =>
      labels[u][u] === labels[v][v] &&
      [...image].every(([w, x]) => labels[u][w] === labels[v][x] && labels[w][u] === labels[x][v]));
    const extend = (at) => {
      if (at === order.length) return true;
      const u = order[at];
      const stay = choices.get(u).includes(u) ? [u] : [];
      for (const v of [...stay, ...choices.get(u).filter((one) => one !== u)]) {
        if (++tries > MOST_TRIES) throw new GivenUp();
        if (taken.has(v) || !fits(u, v)) continue;
        image.set(u, v);
        taken.add(v);
        if (extend(at + 1)) return true;
        image.delete(u);
        taken.delete(v);
      }
      return false;
    };
    return extend(0) ? image : null;
  };

  /* Whether a permutation of all positions keeps every label. */
  const keeps = (graph, image) =>
    graph.every((labels) =>
      labels.every((row, i) => row.every((label, j) => label === labels[image[i]][image[j]])));

  /* The automorphisms with names: [kind, permutation of the tokens], or null. */
  const usual = (graph, { tokens, bos }) => {
    const first = Number(bos);
    const index = Array.from({ length: tokens }, (_, i) => i);
    const whole = (image) => [...Array(first).keys(), ...image.map((v) => v + first)];
    const keptBy = (image) => keeps(graph, whole(image));
    const turn = index.map((i) => (i + 1) % tokens);
    const back = index.map((i) => tokens - 1 - i);
    const swap = [1, 0, ...index.slice(2)];
    // a rotation and one exchange of neighbours generate all permutations
    if (keptBy(turn)) return [keptBy(swap) ? "permutations" : "rotation", turn];
    return keptBy(back) ? ["reversal", back] : null;
  };

  /* rigid: true, false, or null if the search was given up. image: where each token goes, -1 where
     the isomorphism says nothing; root: [i, i'] if it is a rooted isomorphism only; kind:
     "permutations", "rotation", "reversal" or "other". All wanted pairs are supposed to meet. */
  const symmetry = (design, target) => {
    const graph = relations(design);
    const [first, begin] = [Number(design.bos), Design.refinement.start(design)];
    const colours = stable(graph, begin).slice(first);
    if (new Set(colours).size === design.tokens) return { rigid: true };
    const known = target === "all" ? usual(graph, design) : null;
    if (known !== null) return { rigid: false, kind: known[0], image: known[1], root: null };
    try {
      for (let i = 0; i < design.tokens; i++) {
        for (let other = i + 1; other < design.tokens; other++) {
          if (colours[i] !== colours[other]) continue;
          const found = find(graph, begin, i + first, other + first);
          if (found === null) continue;
          const goal = (u) => (found.has(u + first) ? found.get(u + first) - first : -1);
          const image = Array.from({ length: design.tokens }, (_, u) => goal(u));
          const whole = target === "all" && image.every((v) => v >= 0);
          return { rigid: false, kind: "other", image, root: whole ? null : [i, other] };
        }
      }
    } catch (problem) {
      if (problem instanceof GivenUp) return { rigid: null };
      throw problem;
    }
    return { rigid: true };
  };

  /* Layers, counted from the second one, after which no two tokens are alike when all tokens
     differ, whatever they are; null if colours do not show it. */
  const apartAfter = (design) => {
    const graph = relations(design);
    const turned = [...graph.slice(1), graph[0]];
    const history = Design.refinement.rounds(Design.refinement.start(design), turned, null, around);
    const tokens = history[history.length - 1].slice(Number(design.bos));
    return new Set(tokens).size === design.tokens ? history.length - 1 : null;
  };

  return { apartAfter, symmetry };
})();
