"use strict";
/* What would make a design universal: each change is checked before it is offered. One change if
   one is enough, otherwise one of what tokens reach together with one of what they know. */

window.Design = window.Design ?? {};

Design.repairs = (() => {
  const GAINS = { none: "urpe(none)", rope: "urpe(rope)", alibi: "urpe(alibi)", t5: "urpe(t5)", relative: "urpe", shaw: "urpe(shaw)" };
  const MOST_LAYERS = 12;

  const universal = (state, { norm, target }) =>
    Design.verdict.check(Design.state.design(state)).answers[`${norm} ${target}`].universal === true;

  const hubbed = (state) => ({
    ...state,
    layers: state.layers.map(({ mask }) => ({ pattern: null, mask: mask.map((row, i) => row.map((yes, j) => yes || i === 0 || j === 0)) })),
  });

  /* Changes [text, state] of which tokens reach which. */
  const connecting = (state, { norm, target }) => {
    const found = [];
    if (state.depth !== null) {
      for (let depth = state.depth + 1; depth <= MOST_LAYERS; depth++) {
        const deeper = Design.state.changed(state, { depth });
        if (!universal(deeper, { norm, target })) continue;
        found.push([`Make it ${depth} layers deep`, deeper]);
        break;
      }
    }
    if (target === "all") found.push(["Make position 0 a hub", hubbed(state)]);
    return found;
  };

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
    return knowing(state)
      .flatMap(([text, known]) => connecting(known, question).map(([more, both]) => [`${text}; ${more[0].toLowerCase()}${more.slice(1)}`, both]))
      .filter(works);
  };

  return { repairs };
})();
