"use strict";
/* What would make a design universal: each change is checked before it is offered. One change if
   one is enough, otherwise one of what tokens reach together with one of what they know. A change
   is [text, state, rank]; as in the library those with the fewest new connections come first, and
   among equals those of the lower rank. */

window.Design = window.Design ?? {};

Design.repairs = (() => {
  const GAINS = {
    none: "urpe(none)", rope: "urpe(rope)", alibi: "urpe(alibi)", t5: "urpe(t5)", relative: "urpe",
    shaw: "urpe(shaw)",
  };
  const MOST_LAYERS = 12;

  const universal = (state, question) => Design.verdict.isUniversal(Design.state.design(state), question);

  /* The state with every mask widened by what `also(i, j)` allows. */
  const widened = (state, also) => ({
    ...state,
    layers: state.layers.map(({ mask }) => ({
      pattern: null,
      mask: mask.map((row, i) => row.map((yes, j) => yes || also(i, j))),
    })),
  });

  const masked = (state, target) => {
    if (target === "causal") return ["Attend to all earlier tokens", widened(state, (i, j) => j <= i), 3];
    const first = state.bos ? "BOS" : "token 0";
    const text = `Let all tokens attend to ${first}, and ${first} to all`;
    return [text, widened(state, (i, j) => i === 0 || j === 0), 1];
  };

  /* The least depth, from that of the state on, that is enough; null if none is. */
  const deepEnough = (state, question) => {
    for (let depth = state.depth; depth <= MOST_LAYERS; depth++)
      if (universal({ ...state, depth }, question)) return depth;
    return null;
  };

  /* Changes of which tokens reach which: of masks, of depth, or of both. */
  const connecting = (state, question) => {
    const wider = masked(state, question.target);
    if (state.depth === null) return [wider];
    return [[null, state, 0], wider].flatMap(([text, variant, rank]) => {
      const depth = deepEnough(variant, question);
      if (depth === null) return [];
      const more = depth - state.depth;
      const parts = [...(text ? [text] : []), ...(more > 0 ? [`Make it ${depth} layers deep`] : [])];
      return [[joined(parts), { ...variant, depth }, rank + (more > 0 ? 5 + more : 0)]];
    });
  };

  const uncapital = (text) => text[0].toLowerCase() + text.slice(1);
  const joined = ([first, ...rest]) => [first, ...rest.map(uncapital)].join(", ");

  /* Changes of what tokens know of their positions. */
  const knowing = (state) => {
    const found = [];
    if (!state.bos) found.push(["Prepend a BOS token", Design.state.changed(state, { bos: true }), 1]);
    if (state.position in GAINS)
      found.push(["Add URPE gains", Design.state.changed(state, { position: GAINS[state.position] }), 2]);
    if (!Design.positions.NAMED[state.position].atInput)
      found.push(["Use absolute positions", Design.state.changed(state, { position: "absolute" }), 3]);
    return found;
  };

  /* How many pairs attend in a layer, on average over the cycle. */
  const connections = ({ layers }) => {
    const pairs = layers.flatMap(({ mask }) => mask.flat()).filter(Boolean).length;
    return Math.ceil(pairs / layers.length);
  };
  const cheapest = (changes) => changes.sort(([, one, rank], [, other, otherRank]) =>
    connections(one) - connections(other) || rank - otherRank);

  /* The changes for a state that is not universal for a question {norm, target}. */
  const repairs = (state, question) => {
    const works = ([, changed]) => universal(changed, question);
    const first = [...knowing(state), ...connecting(state, question)].filter(works);
    if (first.length > 0) return cheapest(first);
    const both = knowing(state).flatMap(([text, known, rank]) =>
      connecting(known, question).map(([more, changed, another]) =>
        [joined([text, more]), changed, rank + another]));
    return cheapest(both.filter(works));
  };

  return { repairs };
})();
