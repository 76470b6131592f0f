"use strict";
/* What would make a design universal: each change is checked before it is offered. One change if
   one is enough, otherwise one of what tokens reach together with one of what they know. */

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

  const masked = (state, target) => (target === "causal"
    ? ["Attend to all earlier tokens", widened(state, (i, j) => j <= i)]
    : ["Make position 0 a hub", widened(state, (i, j) => i === 0 || j === 0)]);

  /* The least depth, from that of the state on, that is enough; null if none is. */
  const deepEnough = (state, question) => {
    for (let depth = state.depth; depth <= MOST_LAYERS; depth++)
      if (universal({ ...state, depth }, question)) return depth;
    return null;
  };

  /* Changes [text, state] of which tokens reach which: of masks, of depth, or of both. */
  const connecting = (state, question) => {
    const wider = masked(state, question.target);
    if (state.depth === null) return [wider];
    return [[null, state], wider].flatMap(([text, variant]) => {
      const depth = deepEnough(variant, question);
      if (depth === null) return [];
      const deeper = depth > state.depth ? [`Make it ${depth} layers deep`] : [];
      const parts = [...(text ? [text] : []), ...deeper];
      return [[joined(parts), { ...variant, depth }]];
    });
  };

  const uncapital = (text) => text[0].toLowerCase() + text.slice(1);
  const joined = ([first, ...rest]) => [first, ...rest.map(uncapital)].join(", ");

  /* Changes of what tokens know of their positions. */
  const knowing = (state) => {
    const found = [];
    if (!state.bos) found.push(["Prepend a BOS token", Design.state.changed(state, { bos: true })]);
    if (state.position in GAINS)
      found.push(["Add URPE gains", Design.state.changed(state, { position: GAINS[state.position] })]);
    if (!Design.positions.NAMED[state.position].atInput)
      found.push(["Use absolute positions", Design.state.changed(state, { position: "absolute" })]);
    return found;
  };

  /* [[text, state], ...] for a state that is not universal for a question {norm, target}. */
  const repairs = (state, question) => {
    const works = ([, changed]) => universal(changed, question);
    const first = [...knowing(state), ...connecting(state, question)].filter(works);
    if (first.length > 0) return first;
    const both = knowing(state).flatMap(([text, known]) =>
      connecting(known, question).map(([more, changed]) => [joined([text, more]), changed]));
    return both.filter(works);
  };

  return { repairs };
})();
