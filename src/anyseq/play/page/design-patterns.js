"use strict";
/* Named attention patterns: which tokens each token attends to.

   A mask is an array of rows of booleans: mask[i][j] says whether i attends to j. Of n positions
   the first, 0, is that of BOS if there is one. `text` is the name that `anyseq check` reads. */

window.Design = window.Design ?? {};

Design.patterns = (() => {
  const modulo = (a, b) => ((a % b) + b) % b;

  const window_ = (radius) => (i, j) => Math.abs(i - j) <= radius;
  const residue = (stride) => (i, j) => modulo(i - j, stride) === 0;
  const hub = (i, j) => i === 0 || j === 0;
  const ring = (radius) => (i, j, n) => {
    const distance = Math.abs(i - j);
    return distance <= radius || distance >= n - radius;
  };
  const blocks = (size) => (i, j) => Math.floor(i / size) === Math.floor(j / size);
  const summary = (size) => (i, j, n) => i === j || j % size === size - 1 || j === n - 1;
  const either = (one, other) => (i, j, n) => one(i, j, n) || other(i, j, n);

  const number = (label, least, usual) => ({ label, least, usual });

  /* The numbers that a pattern takes, and what it allows: (i, j, n) => bool. */
  const NAMED = {
    full: { title: "Full: all tokens", takes: [], allows: () => () => true },
    causal: { title: "Causal: itself and earlier tokens", takes: [], allows: () => (i, j) => j <= i },
    window: { title: "Window: neighbours", takes: [number("Radius", 0, 1)], allows: window_ },
    dilated: {
      title: "Dilated: a window with gaps",
      takes: [number("Radius", 1, 1), number("Step", 1, 2)],
      allows: (radius, step) => (i, j) =>
        Math.abs(i - j) <= radius * step && modulo(i - j, step) === 0,
    },
    logsparse: {
      title: "LogSparse: distances 1, 2, 4, …",
      takes: [],
      allows: () => (i, j) => [0, 1, 2, 4, 8].includes(Math.abs(i - j)),
    },
    residue: { title: "Stride: distances divisible by it", takes: [number("Stride", 1, 3)], allows: residue },
    strided: {
      title: "Strided: window and stride",
      takes: [number("Stride", 1, 3)],
      allows: (stride) => either(window_(stride), residue(stride)),
    },
    blocks: { title: "Blocks: its own block", takes: [number("Size", 1, 3)], allows: blocks },
    fixed: {
      title: "Fixed: its block, and the last of each",
      takes: [number("Size", 1, 3)],
      allows: (size) => either(blocks(size), summary(size)),
    },
    ring: { title: "Ring: a window that closes", takes: [number("Radius", 1, 1)], allows: ring },
    star: {
      title: "Star: a ring and a hub",
      takes: [number("Radius", 1, 1)],
      allows: (radius) => either(ring(radius), hub),
    },
    longformer: {
      title: "Longformer: a window and a global token",
      takes: [number("Radius", 0, 1)],
      allows: (radius) => either(window_(radius), hub),
    },
    global: { title: "Global: position 0 is a hub", takes: [], allows: () => hub },
  };

  const square = (size, allows) =>
    Array.from({ length: size }, (_, i) => Array.from({ length: size }, (_, j) => allows(i, j, size)));

  /* The mask of a pattern {name, numbers, causal} for `size` positions. */
  const mask = ({ name, numbers, causal }, size) => {
    const allows = NAMED[name].allows(...numbers);
    return square(size, (i, j, n) => allows(i, j, n) && !(causal && j > i));
  };

  const text = ({ name, numbers, causal }) => {
    const plain = name === "global" ? "global(0)" : numbers.length ? `${name}(${numbers.join(", ")})` : name;
    return causal ? `causal & ${plain}` : plain;
  };

  /* A pattern of that name, with its usual numbers. */
  const named = (name) => ({ name, numbers: NAMED[name].takes.map((one) => one.usual), causal: false });

  return { NAMED, mask, named, square, text };
})();
