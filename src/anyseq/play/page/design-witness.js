"use strict";
/* A "no" as something to play with: a function f, and two outputs that no network of the design can
   make different, though f wants them to be.

   A witness is {why, f, inputs, claims, free, range, error, bound, conclusion}:
     inputs(values): [{name, tokens: [number, ...], marked: index or null}, ...], one or two inputs;
     claims(values): [{input, place, wanted}, {...}]: the two outputs that are one number y;
     free: the numbers in the inputs that the reader may change, [{label, least, most, step, usual}];
     range: [least, most] for y; error(y, claims): the error with that y, least(claims): the least
     over all y; bound, conclusion: what no network of the design gets below, as a sentence. */

window.Design = window.Design ?? {};

Design.witness = (() => {
  const ELSEWHERE = 0.5; // the value of tokens that do not matter
  const DIFFERENT = [0.62, 0.27, 0.85, 0.41, 0.12, 0.73, 0.33, 0.9, 0.2, 0.55, 0.78, 0.47];

  const unit = (label, usual) => ({ label, least: 0, most: 1, step: 0.05, usual });

  /* The largest error: max |y - w| >= |w_1 - w_2| / 2. */
  const LARGEST = {
    name: "The larger error",
    error: (y, claims) => Math.max(...claims.map(({ wanted }) => Math.abs(y - wanted))),
    least: ([one, other]) => Math.abs(one.wanted - other.wanted) / 2,
  };

  /* The mean of squares: Σ (y - w)² / 2 >= (w_1 - w_2)² / 4. */
  const SQUARES = {
    name: "The mean squared error",
    error: (y, claims) => claims.reduce((sum, { wanted }) => sum + (y - wanted) ** 2, 0) / 2,
    least: ([one, other]) => (one.wanted - other.wanted) ** 2 / 4,
  };

  /* f_k = x_j, and j does not reach k: output k is one number, whatever x_j is. */
  const unreached = ({ k, j }, { tokens, depth }, norm) => ({
    ...(norm === "sup" ? LARGEST : SQUARES),
    why: `Two inputs that differ in token ${j} alone. Token ${j} does not reach token ${k}`
      + `${depth === null ? "" : ` within depth ${depth}`}, so that every network of this design gives both `
      + `the same output ${k}.`,
    f: `f copies token ${j} to output ${k}`,
    free: ["A", "B"].map((name, at) => unit(`Token ${j} in input ${name}`, at)),
    inputs: (values) => values.map((value, at) => ({
      name: `Input ${"AB"[at]}`,
      tokens: Array.from({ length: tokens }, (_, u) => (u === j ? value : ELSEWHERE)),
      marked: j,
    })),
    claims: (values) => values.map((wanted, input) => ({ input, place: k, wanted })),
    range: [0, 1],
    bound: norm === "sup" ? 0.5 : 1 / 12,
    conclusion: norm === "sup"
      ? "With 0 and 1 for that token, every network errs by at least 1/2."
      : "If that token is uniform in [0, 1], the mean squared error is its variance, 1/12, at least.",
  });

  /* f_i = i, and identical tokens get equal outputs at two positions. */
  const stuck = ({ i, other }, { tokens }) => ({
    ...LARGEST,
    why: "All tokens are equal. Then every network of this design gives positions "
      + `${i} and ${other} the same output.`,
    f: "f tells every token where it is: fᵢ = i",
    free: [unit("Every token", 0.5)],
    inputs: ([value]) => [{ name: "The input", tokens: Array(tokens).fill(value), marked: null }],
    claims: () => [i, other].map((place) => ({ input: 0, place, wanted: place })),
    range: [0, tokens - 1],
    bound: (other - i) / 2,
    conclusion: `On such inputs every network errs by at least ${(other - i) / 2}.`,
  });

  const orbits = (image) => {
    const seen = new Set();
    return image.flatMap((_, start) => {
      const orbit = [];
      for (let here = start; !seen.has(here); here = image[here]) {
        seen.add(here);
        orbit.push(here);
      }
      return orbit.length ? [orbit] : [];
    });
  };

  /* Σ_i (i - mean of its orbit)²: every output of an orbit must serve as all the numbers of it. */
  const spread = (image) => orbits(image).reduce((sum, orbit) => {
    const mean = orbit.reduce((all, i) => all + i, 0) / orbit.length;
    return sum + orbit.reduce((all, i) => all + (i - mean) ** 2, 0);
  }, 0);

  /* f_i = i, and an isomorphism φ of what reaches i onto what reaches i': T(x)_i = T(y)_i' as soon
     as y_φ(u) = x_u. */
  const alike = ({ image, root }, tokens, first) => {
    const [i, other] = root;
    const x = (value) => DIFFERENT.slice(0, tokens).with(i, value);
    const y = (value) => {
      const moved = Array(tokens).fill(ELSEWHERE);
      x(value).forEach((token, u) => { if (image[u] >= 0) moved[image[u]] = token; });
      return moved;
    };
    return {
      ...SQUARES,
      why: `${first} So every network gives output ${i} of input A and output ${other} of input B `
        + "the same number.",
      f: "f tells every token where it is: fᵢ = i",
      free: [unit(`Token ${i} of A, which is token ${other} of B`, 0.95)],
      inputs: ([value]) => [
        { name: "Input A", tokens: x(value), marked: i },
        { name: "Input B", tokens: y(value), marked: other },
      ],
      claims: () => [i, other].map((place, input) => ({ input, place, wanted: place })),
      range: [0, tokens - 1],
    };
  };

  const exchanged = (found, { tokens }) => {
    const [i, other] = found.root;
    const bound = (i - other) ** 2 / 4;
    return {
      ...alike(found, tokens, `What reaches token ${i} of input A is what reaches token ${other} of input B.`),
      bound,
      conclusion: `If all tokens are drawn alike, the mean squared error at these two is at least ${bound}.`,
    };
  };

  const symmetric = (found, { tokens }) => {
    const moves = found.image.map((v, u) => Math.abs(v - u));
    const i = moves.indexOf(Math.max(...moves));
    const bound = spread(found.image);
    const first = "Input B is input A with its tokens permuted in a way that the design cannot tell: every network "
      + "permutes its outputs alike.";
    return {
      ...alike({ image: found.image, root: [i, found.image[i]] }, tokens, first),
      bound,
      conclusion: "If all tokens are drawn alike, the squared errors of all outputs have a mean sum of at "
        + `least ${Math.floor(bound * 1000 + 1e-6) / 1000}.`,
    };
  };

  const KINDS = { unreached, stuck, exchanged, symmetric };

  /* The witness of an answer, ready to play; null if there is none. */
  const of = (design, { witness, norm }) => (witness ? KINDS[witness.kind](witness, design, norm) : null);

  return { of };
})();
