"use strict";
/* Position refinement: which positions a network can tell apart on identical tokens.

   Let T_i[r, (g, c)] be the number of positions of colour c that i attends to with bias label r and
   gain label g; the pairs (g, c) are its columns. In each layer the new colour of i is its old one
   with what softmax shows of T_i (docs/theorems.md, "Position refinement", Lemmas 2 and 3):

   - T_i up to a common factor, where biases are free; if T_i has rank one, the proportions of its
     columns only;
   - with ALiBi the polynomials L_col(q) = Σ_r T_i[r, col] q^r, up to a common rational factor. */

window.Design = window.Design ?? {};

Design.refinement = (() => {
  const gcd = (a, b) => (b === 0n ? a : gcd(b, a % b));
  const inOrder = (one, other) => (one < other ? -1 : Number(one > other));

  /* Numbers 0, 1, 2, ... for things that are equal as strings, in the order of their first place. */
  const numbered = (things) => {
    const known = new Map();
    return things.map((thing) => known.get(thing) ?? (known.set(thing, known.size), known.size - 1));
  };

  /* [[name, number], ...] up to a common factor of the numbers, as a string. */
  const proportions = (amounts) => {
    const common = amounts.reduce((all, [, amount]) => gcd(all, amount), 0n);
    return amounts.map(([name, amount]) => `${name}:${amount / common}`).sort(inOrder).join(" ");
  };

  /* Maps row -> number and column -> number, and the entries [r, column, number] of T_i. */
  const table = (seen, i, colours, position) => {
    const entries = new Map();
    for (const j of seen) {
      const r = position.bias(i - j);
      const column = `${position.gain(i - j)},${colours[j]}`;
      const key = `${r};${column}`;
      const entry = entries.get(key) ?? [r, column, 0n];
      entry[2] += 1n;
      entries.set(key, entry);
    }
    return [...entries.values()];
  };

  const sums = (entries, of) => {
    const total = new Map();
    for (const entry of entries) total.set(entry[of], (total.get(entry[of]) ?? 0n) + entry[2]);
    return total;
  };

  /* Rank at most one: T[r, c] total = (row r)(column c) for all r and c, zeros included. */
  const isRankOne = (entries) => {
    const [rows, columns] = [sums(entries, 0), sums(entries, 1)];
    const total = entries.reduce((all, entry) => all + entry[2], 0n);
    return entries.length === rows.size * columns.size &&
      entries.every(([r, column, many]) => many * total === rows.get(r) * columns.get(column));
  };

  /* The polynomials at q = 2^32. Coefficients are 13 at most, and those of a difference of two
     products 13² at most: at a point that large no such difference is 0 unless it is the zero
     polynomial, so that equal proportions there are equal proportions everywhere. */
  const atOnePoint = (entries) => {
    const values = new Map();
    for (const [distance, column, many] of entries)
      values.set(column, (values.get(column) ?? 0n) + (many << (32n * BigInt(distance))));
    return values;
  };

  /* What softmax shows of T_i, as a string. */
  const softmaxKey = (entries, sloped) => {
    if (entries.length === 0) return "nothing";
    if (sloped) return proportions([...atOnePoint(entries)]);
    if (isRankOne(entries)) return `shares ${proportions([...sums(entries, 1)])}`;
    return `table ${proportions(entries.map(([r, column, many]) => [`${r};${column}`, many]))}`;
  };

  /* The colours before the first layer: positions that are told at the input differ; BOS differs
     from all. */
  const start = ({ tokens, bos, position }) => {
    const { atInput } = Design.positions.NAMED[position];
    return Array.from({ length: tokens + Number(bos) }, (_, i) => (atInput ? i : Number(i >= Number(bos))));
  };

  /* Rounds of any rule: see(layer, i, colours) is a string. Colours after 0, 1, 2, ... rounds, up to
     the last one that splits a class, or to the depth. */
  const rounds = (begin, cycle, depth, see) => {
    let colours = numbered(begin);
    const many = () => Math.max(...colours) + 1;
    const history = [colours];
    let last = 0;
    for (let layer = 1; layer <= last + cycle.length && layer - 1 !== depth; layer++) {
      const [before, classes] = [colours, many()];
      if (classes === before.length) break;
      const now = cycle[(layer - 1) % cycle.length];
      colours = numbered(before.map((colour, i) => `${colour}|${see(now, i, before)}`));
      history.push(colours);
      if (many() > classes) last = layer;
    }
    return history.slice(0, last + 1);
  };

  /* history: the colours of all positions, BOS first, after 0, 1, 2, ... rounds. classes: those of
     the tokens at the end. rounds: the last round that changed them. discrete: whether all tokens
     differ. stuck: two tokens of one class, as far apart as possible, or null. */
  const refine = (design) => {
    const position = Design.positions.NAMED[design.position];
    const seen = design.masks.map((mask) => mask.map((row) => row.flatMap((yes, j) => (yes ? [j] : []))));
    const see = (rows, i, colours) => softmaxKey(table(rows[i], i, colours, position), position.sloped);
    const history = rounds(start(design), seen, design.depth, see);
    const classes = numbered(history[history.length - 1].slice(Number(design.bos)));
    let stuck = null;
    classes.forEach((colour, i) => {
      const other = classes.lastIndexOf(colour);
      if (other > i && (stuck === null || other - i > stuck[1] - stuck[0])) stuck = [i, other];
    });
    return { history, classes, rounds: history.length - 1, discrete: stuck === null, stuck };
  };

  return { inOrder, numbered, refine, rounds, start };
})();
