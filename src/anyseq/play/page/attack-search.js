"use strict";
/* A search for the input with the largest error: random starts, each improved by steps along one or
   all coordinates that shrink where they do not help. Same seed, same search. */

window.AttackSearch = (() => {
  /* Numbers in [0, 1): mulberry32. */
  const random = (seed) => {
    let state = seed >>> 0;
    return () => {
      state = (state + 0x6d2b79f5) >>> 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
    };
  };

  const inside = (value) => Math.min(1, Math.max(0, value));
  const SMALLEST = 1e-4;

  /* Returns {step(), tried, best, x}: a step evaluates error once. */
  const search = ({ error, tokens, seed, start }) => {
    const draw = random(seed);
    const found = { tried: 0, best: -1, x: [...start] };
    let here = [...start];
    let height = -1;
    let size = 0.25;

    const look = (x) => {
      const value = error(x);
      found.tried += 1;
      if (value > found.best) {
        found.best = value;
        found.x = [...x];
      }
      return value;
    };
    found.step = () => {
      if (height < 0) {
        height = look(here);
        return;
      }
      if (size < SMALLEST) {
        here = Array.from({ length: tokens }, draw);
        size = 0.25;
        height = look(here);
        return;
      }
      const alone = draw() < 0.5 ? Math.floor(draw() * tokens) : -1;
      const there = here.map((value, at) =>
        alone < 0 || at === alone ? inside(value + size * (2 * draw() - 1)) : value);
      const value = look(there);
      if (value > height) {
        here = there;
        height = value;
      } else {
        size *= 0.9;
      }
    };
    return found;
  };

  return { search };
})();
