"use strict";
/* What the reader has chosen, as a value: every change makes a new one.

   {tokens, bos, position, depth, layers: [{pattern, mask}, ...]}: layers take the masks in turn;
   pattern is null for a mask that was painted. Positions count from 0; with BOS it is position 0. */

window.Design = window.Design ?? {};

Design.state = (() => {
  const sizeOf = ({ tokens, bos }) => tokens + Number(bos);

  const patterned = (pattern, size) => ({ pattern, mask: Design.patterns.mask(pattern, size) });

  /* A painted mask for another number of tokens: what is new attends to itself, and everything
     attends to a new BOS. */
  const fitted = (layer, before, after) => {
    const size = sizeOf(after);
    if (layer.pattern !== null) return patterned(layer.pattern, size);
    const shift = Number(before.bos) - Number(after.bos);
    const mask = Design.patterns.square(size, (i, j) => {
      if (after.bos && !before.bos && (i === 0 || j === 0)) return j === 0;
      return layer.mask[i + shift]?.[j + shift] ?? i === j;
    });
    return { pattern: null, mask };
  };

  /* The state with some of tokens, bos, position and depth changed. */
  const changed = (state, change) => {
    const after = { ...state, ...change };
    if (sizeOf(after) === sizeOf(state) && after.bos === state.bos) return after;
    return { ...after, layers: state.layers.map((layer) => fitted(layer, state, after)) };
  };

  const withLayer = (state, at, layer) =>
    ({ ...state, layers: state.layers.map((old, index) => (index === at ? layer : old)) });

  const withPattern = (state, at, pattern) => withLayer(state, at, patterned(pattern, sizeOf(state)));

  const painted = (state, at, i, j, value) => {
    const { mask } = state.layers[at];
    if (mask[i][j] === value) return state;
    const copy = mask.map((row, k) => (k === i ? row.map((old, l) => (l === j ? value : old)) : row));
    return withLayer(state, at, { pattern: null, mask: copy });
  };

  /* One mask for all layers, or a second one that every other layer takes. */
  const alternating = (state, yes) =>
    ({ ...state, layers: yes ? [state.layers[0], state.layers[0]] : [state.layers[0]] });

  const begin = () => {
    const state = { tokens: 8, bos: false, position: "rope", depth: null };
    return { ...state, layers: [patterned(Design.patterns.named("window"), sizeOf(state))] };
  };

  /* The design that `Design.verdict.check` takes. */
  const design = ({ layers, ...rest }) => ({ ...rest, masks: layers.map(({ mask }) => mask) });

  return { alternating, begin, changed, design, painted, sizeOf, withLayer, withPattern };
})();
