"use strict";
/* The verdict: can networks of a design approximate every continuous function, or every causal one?

   A design here is {tokens, bos, masks, position, depth}: masks are those of the layers, which take
   them in turn, over BOS (position 0, if there is one) and the tokens; depth is null for any.
   Blocks are softmax attention and a feed-forward half, of any width, without norms. Each rule says
   what it rests on (docs/theorems.md); where none decides, the answer is null. */

window.Design = window.Design ?? {};

Design.verdict = (() => {
  const MOST_TOKENS = 12;

  const layersText = (many) => `${many} ${many === 1 ? "layer" : "layers"}`;

  /* What is known of a design; asked for once. */
  const factsOf = (design) => {
    const position = Design.positions.NAMED[design.position];
    const { masks } = design;
    return {
      design,
      position,
      reach: {
        all: Design.reach.reach(design, "all"),
        causal: Design.reach.reach(design, "causal"),
      },
      refinement: Design.refinement.refine(design),
      isCausal: masks.every((mask) => mask.every((row, i) => row.every((yes, j) => !yes || j <= i))),
    };
  };

  /* A rule finds {rule, holds: true | false | null, saw, witness?, proof?}, or undefined. */

  /* Every token must be reached by every token it may depend on (Theorem 1, Lemma 1). */
  const reach = ({ design, reach: found, isCausal }, target) => {
    const { layers, pair } = found[target];
    const late = layers !== null && design.depth !== null && layers > design.depth;
    if (layers !== null && !late) {
      const every = target === "causal" ? "Every earlier token" : "Every token";
      return { rule: "reach", holds: true, saw: `${every} reaches every token in ${layersText(layers)}.` };
    }
    const [k, j] = pair;
    const witness = { kind: "unreached", name: isCausal && j > k ? "W5" : "W6", k, j };
    let saw = `Token ${j} never reaches token ${k}, however many layers there are.`;
    if (late) saw = `Token ${j} reaches token ${k} after ${layersText(layers)}; depth is ${design.depth}.`;
    else if (witness.name === "W5")
      saw = `No token attends to a later one, so output ${k} cannot depend on token ${j}: `
        + "only causal functions can be computed.";
    return { rule: "reach", holds: false, saw, witness };
  };

  /* In sup norm identical tokens must be told apart by where they are (Lemmas 2 and 3). */
  const positions = ({ design, position, refinement, isCausal }, target, norm) => {
    if (norm !== "sup") return undefined;
    const rule = "positions";
    if (position.atInput) return { rule, holds: true, saw: "Every token has its position." };
    if (refinement.discrete)
      return { rule, holds: true, saw: `Identical tokens are told apart after ${layersText(refinement.rounds)}.` };
    const [i, other] = refinement.stuck;
    const classes = new Set(refinement.classes).size;
    const within = design.depth === null ? "" : ` within ${layersText(design.depth)}`;
    const saw = classes === 1
      ? `Identical tokens stay identical at all ${design.tokens} positions${within}.`
      : `Identical tokens fall into ${classes} classes${within}: tokens ${i} and ${other} share one.`;
    const name = isCausal && classes === 1 ? "W8" : "W1";
    return { rule, holds: false, saw, witness: { kind: "stuck", name, i, other } };
  };

  const KINDS = {
    permutations: ["W2", "Permuting the tokens permutes the outputs."],
    reversal: ["W3", "Reversing the sequence reverses the outputs."],
    rotation: ["W4", "Rotating the sequence rotates the outputs."],
    other: ["W2", "A permutation of the positions commutes with every network."],
  };

  /* In L^p no two places may be alike when all tokens differ (Theorem 2). */
  const symmetries = ({ design, position, reach: found, refinement }, target, norm, symmetry) => {
    if (norm !== "lp" || position.atInput || found[target].layers === null) return undefined;
    const rule = "symmetries";
    if (refinement.discrete)
      return { rule, holds: true, saw: "Positions are told apart even on identical tokens." };
    const { rigid, kind, image, root } = symmetry(design, target);
    if (rigid === null) return { rule, holds: null, saw: "The search for symmetries was given up." };
    if (rigid) return { rule, holds: true, saw: "No two places are alike when all tokens differ." };
    if (root === null) {
      const [name, saw] = KINDS[kind];
      return { rule, holds: false, saw, witness: { kind: "symmetric", name, image } };
    }
    const saw = `What reaches token ${root[0]} is exactly like what reaches token ${root[1]}.`;
    return { rule, holds: false, saw, witness: { kind: "exchanged", name: "W2", image, root } };
  };

  /* Theorem 1: positions become known, then every token gathers the sequence. */
  const gather = ({ design, position, reach: found, refinement }, target) => {
    if (found[target].layers === null || !(position.atInput || refinement.discrete)) return undefined;
    const rounds = position.atInput ? 0 : refinement.rounds;
    const later = Design.reach.reach(design, target, rounds % design.masks.length).layers;
    // a head with a gain for each offset delivers every token of its row alone, and the row itself
    const atOnce = position.hasGain && rounds <= 1 && found[target].layers <= 1;
    const needed = atOnce ? 1 : Math.max(1, rounds + later);
    const rule = "gather";
    if (design.depth !== null && design.depth < needed) {
      const open = `whether depth ${design.depth} suffices is not known`;
      return { rule, holds: null, saw: `${layersText(needed)} suffice in any case; ${open}.` };
    }
    let saw = `Every token has its position after ${layersText(rounds)}, `
      + `and has gathered the sequence ${layersText(later)} later.`;
    if (atOnce) saw = "One layer gathers the sequence and tells every token its position.";
    else if (rounds === 0)
      saw = `Every token has its position, and has gathered the sequence after ${layersText(later)}.`;
    return { rule, holds: true, saw, proof: "Theorem 1" };
  };

  /* Theorem 2: in L^p it is enough that no two places are alike when all tokens differ. */
  const rigid = (facts, target, norm, symmetry) => {
    const { design, position, reach: found, refinement } = facts;
    if (norm !== "lp" || found[target].layers === null || gather(facts, target)?.proof) return undefined;
    if (!position.atInput && !refinement.discrete && !symmetry(design, target).rigid) return undefined;
    const rule = "rigidity";
    const saw = "No two places are alike when all tokens differ";
    if (design.depth === null) return { rule, holds: true, saw: `${saw}.`, proof: "Theorem 2" };
    const told = Design.symmetry.apartAfter(design);
    const open = { rule, holds: null, saw: `${saw}; whether depth ${design.depth} suffices is not known.` };
    if (told === null) return open;
    const enough = 1 + told + Design.reach.reach(design, target, (1 + told) % design.masks.length).layers;
    if (design.depth < enough) return open;
    return { rule, holds: true, saw: `${saw}; ${layersText(enough)} are enough.`, proof: "Theorem 2" };
  };

  /* The answer to one question. norm: "sup" or "lp"; target: "all" or "causal".
     -> {universal: true | false | null, reason, findings, witness, proof} */
  const decide = (facts, norm, target, symmetry) => {
    const found = [reach, positions, symmetries, gather, rigid]
      .map((rule) => rule(facts, target, norm, symmetry))
      .filter((one) => one !== undefined);
    // rigidity says what symmetries says, and more
    const says = new Set(found.map(({ rule }) => rule));
    const findings = found.filter(({ rule }) => rule !== "symmetries" || !says.has("rigidity"));
    const against = findings.find((one) => one.witness);
    const proof = findings.find((one) => one.proof);
    if (against && proof) throw new Error(`${against.rule} and ${proof.rule} contradict each other`);
    const shared = { norm, target, findings };
    if (against) return { ...shared, universal: false, reason: against.saw, witness: against.witness };
    if (proof) return { ...shared, universal: true, reason: proof.saw, proof: proof.proof };
    const open = [...new Set(findings.filter(({ holds }) => holds === null).map(({ saw }) => saw))];
    return { ...shared, universal: null, reason: open.join(" ") };
  };

  /* What all questions about a design share. */
  const prepared = (design) => {
    if (design.tokens > MOST_TOKENS)
      throw new Error(`${design.tokens} tokens: this page decides up to ${MOST_TOKENS}; use anyseq play`);
    const known = new Map();
    const symmetry = (_, target) => {
      if (!known.has(target)) known.set(target, Design.symmetry.symmetry(design, target));
      return known.get(target);
    };
    return [factsOf(design), symmetry];
  };

  /* All four answers, and what the pictures show. */
  const check = (design) => {
    const [facts, symmetry] = prepared(design);
    const answers = {};
    for (const norm of ["sup", "lp"])
      for (const target of ["all", "causal"])
        answers[`${norm} ${target}`] = decide(facts, norm, target, symmetry);
    return { ...facts, answers };
  };

  /* Whether the answer to one question is a proved yes. */
  const isUniversal = (design, { norm, target }) => {
    const [facts, symmetry] = prepared(design);
    return decide(facts, norm, target, symmetry).universal === true;
  };

  return { MOST_TOKENS, check, isUniversal, layersText };
})();
