"use strict";
/* What a position encoding shows of a pair of positions.

   Scores of softmax contain a bias that is free for each *bias label* r(i, j), and weights are
   multiplied by a gain that is free for each *gain label* g(i, j) (docs/theorems.md, "The class").
   Labels are functions of the offset i - j. ALiBi's bias is not free: it is a slope times |i - j|.
   Absolute and sinusoidal positions enter at the input; then all positions differ. */

window.Design = window.Design ?? {};

Design.positions = (() => {
  /* T5's bucket of an offset: 16 to each side, exact below distance 8, then wider by logarithms up
     to 128. */
  const bucket = (offset) => {
    const distance = Math.abs(offset);
    const wide = 8 + Math.floor((Math.log(Math.max(distance, 8) / 8) / Math.log(128 / 8)) * 8);
    return (distance < 8 ? distance : Math.min(wide, 15)) + (offset < 0 ? 16 : 0);
  };
  const clipped = (offset) => Math.max(-16, Math.min(16, offset)); // Shaw's, at distance 16
  const same = () => 0;
  const itself = (offset) => offset;

  const of = (title, bias, more = {}) =>
    ({ title, bias, gain: same, atInput: false, hasGain: false, sloped: false, ...more });

  const BASES = {
    none: of("None", same),
    absolute: of("Absolute, learned", same, { atInput: true }),
    sinusoidal: of("Sinusoidal", same, { atInput: true }),
    rope: of("RoPE (rotary)", itself),
    alibi: of("ALiBi: a slope a head", Math.abs, { sloped: true }),
    t5: of("T5: a bias a bucket", bucket),
    relative: of("Relative bias, one an offset", itself),
    shaw: of("Shaw: relative keys and values", clipped, { gain: clipped }),
  };

  /* URPE: the base, and a gain for each offset after the softmax. */
  const withGains = (base, title) => ({ ...base, title, gain: itself, hasGain: true });

  const NAMED = { ...BASES, urpe: withGains(BASES.relative, "URPE: relative bias and gains") };
  for (const name of ["none", "absolute", "rope", "alibi", "t5", "shaw"])
    NAMED[`urpe(${name})`] = withGains(BASES[name], `URPE over ${BASES[name].title.split(/[ ,:]/)[0]}`);

  return { NAMED };
})();
