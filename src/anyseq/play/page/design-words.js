"use strict";
/* The words of the tab, explained where they are used; and what this page leaves to the library. */

window.Design = window.Design ?? {};

Design.words = (() => {
  const { element } = Play;

  const WORDS = [
    ["Attends to, reaches",
      "In one layer a token attends to the tokens that its row of the mask allows. Token j reaches "
      + "token k if it can get there through several layers."],
    ["Function",
      "A continuous map f from sequences of numbers in [0, 1] to sequences. It is causal if output i "
      + "depends on tokens 0, …, i only."],
    ["Sup norm",
      "The largest error over all inputs. A yes means: for every f and every tolerance some network "
      + "stays within it on every input."],
    ["Lᵖ",
      "The mean error over all inputs. A yes means: for every f and every tolerance some network stays "
      + "below it on average. Sequences with two equal tokens have measure 0, so they do not count."],
    ["BOS",
      "One more token that comes first and differs from all others. Its output is dropped."],
    ["URPE",
      "Universal relative position encoding: after the softmax every weight is multiplied by a learned "
      + "gain, one for each offset i − j. Weights then need not sum to 1, so that identical tokens can "
      + "become different."],
    ["Width and depth",
      "Width is the number of features and heads, depth the number of layers. The answers hold for "
      + "networks as wide as needed, and as deep unless a depth is given."],
  ];

  const node = () => element("section", { class: "design-words", "aria-label": "Words" },
    element("details", {}, element("summary", {}, "What the words mean"),
      element("dl", {}, ...WORDS.flatMap(([word, meaning]) =>
        [element("dt", {}, word), element("dd", {}, meaning)]))),
    element("p", { class: "soft small" },
      "This page decides designs of up to 12 tokens with softmax and the positions above. For longer "
      + "sequences, other maps and patterns of your own, use ",
      element("code", {}, "anyseq play"), "."));

  return { node };
})();
