"use strict";
/* The functions that networks approximate, as trees: the same walk as the library's, in plain
   numbers. A tree is [kind, ...parts]; nothing is ever evaluated as code. */

window.Formula = (() => {
  const unary = {
    sin: Math.sin,
    cos: Math.cos,
    exp: Math.exp,
    log: Math.log,
    sqrt: Math.sqrt,
    abs: Math.abs,
    tanh: Math.tanh,
    sigmoid: (a) => 1 / (1 + Math.exp(-a)),
    relu: (a) => Math.max(a, 0),
  };
  const binary = {
    add: (a, b) => a + b,
    subtract: (a, b) => a - b,
    multiply: (a, b) => a * b,
    divide: (a, b) => a / b,
  };
  const whole = {
    ...binary,
    "//": (a, b) => Math.floor(a / b),
    "%": (a, b) => a - b * Math.floor(a / b), // the sign of b, as in Python
  };
  const compare = {
    "<": (a, b) => a < b,
    "<=": (a, b) => a <= b,
    ">": (a, b) => a > b,
    ">=": (a, b) => a >= b,
    "==": (a, b) => a === b,
    "!=": (a, b) => a !== b,
  };
  const power = (a, exponent) => {
    let product = 1;
    for (let k = 0; k < exponent; k++) product *= a;
    return product;
  };
  const each = (value, f) => (Array.isArray(value) ? value.map(f) : f(value));
  const both = (a, b, f) => {
    if (Array.isArray(a)) return a.map((one, at) => f(one, Array.isArray(b) ? b[at] : b));
    return each(b, (one) => f(a, one));
  };

  const has = (table, name) => Object.hasOwn(table, name);

  /* A number, or a list of them for a sequence. */
  const value = (tree, x, i) => {
    const [kind, first, second, third] = tree;
    if (kind === "x") return [...x];
    if (kind === "number" || kind === "whole") return first;
    if (kind === "i") return i;
    if (kind === "n") return x.length;
    if (kind === "negative") return each(value(first, x, i), (a) => 0 - a);
    if (kind === "power") return each(value(first, x, i), (a) => power(a, second));
    if (kind === "if") {
      const [name, left, right] = first;
      const holds = compare[name](value(left, x, i), value(right, x, i));
      return value(holds ? second : third, x, i);
    }
    if (kind === "list") return tree.slice(1).map((part) => value(part, x, i));
    if (has(unary, kind)) return each(value(first, x, i), unary[kind]);
    if (has(whole, kind)) return both(value(first, x, i), value(second, x, i), whole[kind]);
    return ofSequence(tree, value(first, x, i), x, i);
  };

  const ofSequence = ([kind, , low, high], entries, x, i) => {
    const at = (tree, otherwise) => (tree === null ? otherwise : value(tree, x, i));
    const total = () => entries.slice(1).reduce((sum, a) => sum + a, entries[0]);
    switch (kind) {
      case "entry": return entries[value(low, x, i)];
      case "slice": return entries.slice(at(low, 0), at(high, entries.length));
      case "sort": return [...entries].sort((a, b) => a - b);
      case "max": return Math.max(...entries);
      case "min": return Math.min(...entries);
      case "sum": return total();
      case "mean": return total() / entries.length;
    }
    throw new Error(`a formula with ${kind}`);
  };

  /* f(x): an output for each token. */
  const outputs = (tree, x) => Array.from(x, (_, i) => value(tree, x, i));

  return { outputs };
})();
