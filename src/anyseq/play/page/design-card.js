"use strict";
/* The verdict: a question and its answer, with the reason and what would repair a no; a table of all
   four questions to choose from. */

window.Design = window.Design ?? {};

Design.card = (() => {
  const { element } = Play;
  const WORDS = { true: ["Yes", "yes"], false: ["No", "no"], null: ["Not known", "unknown"] };
  const EXPLAINED = "On every input: the largest error can be made as small as you like. On almost every "
    + "input: the mean error can. A function is causal if output i depends on tokens 0 to i only.";
  const MARKS = { true: "✓", false: "✗", null: "?" };
  const NORMS = [["sup", "on every input", "sup norm"], ["lp", "on almost every input", "Lᵖ"]];
  const TARGETS = [["all", "Every function"], ["causal", "Every causal function"]];

  const capital = (text) => text[0].toUpperCase() + text.slice(1);
  const mark = (universal) => element("span", { "aria-hidden": "true" }, `${MARKS[String(universal)]} `);

  const question = ({ norm, target }) => {
    const functions = TARGETS.find(([name]) => name === target)[1].toLowerCase();
    const [, where, symbol] = NORMS.find(([name]) => name === norm);
    return `${functions} ${where} (${symbol})`;
  };
  const sized = (depth) => (depth === null ? "at some width and depth" : `at depth ${depth} and some width`);

  /* choose(norm, target): another question; play(): go to the witness; repair(state): take over a
     change. show() returns what it says, in words. */
  const card = ({ choose, play, repair }) => {
    const asked = element("p", { class: "soft" });
    const word = element("p", { class: "design-word" });
    const reason = element("p", { class: "design-reason" });
    const findings = element("ul", { class: "design-findings" });
    const shown = element("button", { type: "button", onclick: play }, "Play the witness ↓");
    const repairs = element("div", { class: "design-repairs" });
    const table = element("table", { class: "design-answers" });
    const buttons = new Map();

    table.append(
      element("caption", { class: "visually-hidden" }, "The four answers; choose the one to explain"),
      element("thead", {}, element("tr", {}, element("td"), ...NORMS.map(([, where, symbol]) =>
        element("th", { scope: "col" }, capital(`${where} `), element("span", {}, symbol))))),
      element("tbody", {}, ...TARGETS.map(([target, title]) => element("tr", {},
        element("th", { scope: "row" }, title),
        ...NORMS.map(([norm]) => {
          const button = element("button", { type: "button", onclick: () => choose(norm, target) });
          buttons.set(`${norm} ${target}`, button);
          return element("td", {}, button);
        })))),
    );

    const show = (checked, chosen, offered) => {
      const answer = checked.answers[`${chosen.norm} ${chosen.target}`];
      const [text, kind] = WORDS[String(answer.universal)];
      word.textContent = text;
      word.dataset.answer = kind;
      asked.textContent = `Can it approximate ${question(chosen)}, ${sized(checked.design.depth)}?`;
      reason.textContent = answer.proof ? `${answer.reason} (${answer.proof})` : answer.reason;
      // what is open matters only where the answer is
      const matters = ({ holds }) => holds !== null || answer.universal === null;
      const others = answer.findings.filter((found) => found.saw !== answer.reason && matters(found));
      findings.replaceChildren(...others.map(({ holds, saw }) =>
        element("li", { "data-answer": WORDS[String(holds)][1] }, mark(holds), saw)));
      for (const [name, button] of buttons) {
        const { universal, norm, target } = checked.answers[name];
        const [said, color] = WORDS[String(universal)];
        button.replaceChildren(mark(universal), said);
        button.dataset.answer = color;
        button.setAttribute("aria-label", `${said}: ${question({ norm, target })}`);
        button.setAttribute("aria-pressed", norm === chosen.norm && target === chosen.target);
      }
      shown.hidden = !answer.witness;
      repairs.hidden = offered.length === 0;
      repairs.replaceChildren(
        element("p", { class: "soft small" }, "Each of these makes it a yes:"),
        element("div", { class: "buttons" }, ...offered.map(([name, state]) =>
          element("button", { type: "button", onclick: () => repair(state) }, name))),
      );
      return `${text}. ${answer.reason}`;
    };

    const node = element("section", { class: "card design-verdict", "aria-label": "Verdict" },
      element("div", { class: "design-answer-head" }, asked, word), reason, findings,
      element("div", { class: "buttons" }, shown), repairs, table,
      element("p", { class: "soft small" }, EXPLAINED));
    return { node, show };
  };

  return { card };
})();
