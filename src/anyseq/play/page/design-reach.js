"use strict";
/* Reach: how what a token holds gets to the other tokens, residual included.

   S_k = {k} before the first layer; layer t makes S_k with all S_j of it, over the j that k attends
   to. Token j has reached k when j is in S_k. Sets are whole numbers, a bit per position. */

window.Design = window.Design ?? {};

Design.reach = (() => {
  /* The sets after 0, 1, 2, ... layers, up to the last layer that adds to them. phase: the layer of
     the cycle that comes first. */
  const grow = ({ masks, tokens, bos }, phase = 0) => {
    const size = tokens + Number(bos);
    let sets = Array.from({ length: size }, (_, k) => 1 << k);
    const history = [sets];
    let last = 0;
    for (let layer = 1; layer <= last + masks.length; layer++) {
      const mask = masks[(phase + layer - 1) % masks.length];
      const before = sets;
      sets = before.map((set, k) => mask[k].reduce((all, seen, j) => (seen ? all | before[j] : all), set));
      history.push(sets);
      if (sets.some((set, k) => set !== before[k])) last = layer;
    }
    return history.slice(0, last + 1);
  };

  /* The pairs (k, j) of tokens, counted without BOS, in which j must reach k and has not. */
  const missing = ({ tokens, bos }, target, sets) => {
    const pairs = [];
    const first = Number(bos);
    for (let k = 0; k < tokens; k++)
      for (let j = 0; j < (target === "causal" ? k + 1 : tokens); j++)
        if (!((sets[k + first] >> (j + first)) & 1)) pairs.push([k, j]);
    return pairs;
  };

  /* layers: the least number after which all wanted pairs have met, null if they never do.
     pair: [k, j] that never meet, or meet in the last of these layers; null if none is needed. */
  const reach = (design, target, phase = 0) => {
    const history = grow(design, phase);
    const open = history.map((sets) => missing(design, target, sets));
    const layers = open.findIndex((pairs) => pairs.length === 0);
    if (layers < 0) return { history, layers: null, pair: open[open.length - 1][0] };
    return { history, layers, pair: layers > 0 ? open[layers - 1][0] : null };
  };

  return { grow, missing, reach };
})();
