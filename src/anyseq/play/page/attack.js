"use strict";
/* The tab "Attack": drag the input to make the error as large as you can; the bound holds. */

Play.tab("attack", "Attack", (panel) => {
  const { element, svg, calm, announceSoon } = Play;
  const { bound, seen, prose, choice, facts, inputs } = NetworkParts;

  const EVALUATIONS = 6000; // of one search
  const BETWEEN = 16; // milliseconds of search between two pictures, at most
  const AT_ONCE = 60; // evaluations between two pictures, so that the input can be seen to move
  const NEAR = 1e-3; // to the best point: there at once
  const MARK = 330; // where the bound stands in the gauge
  const ROUNDING = 1e-6; // a bound below it is one of rounding only
  const SAMPLES = 120; // of a slice, and fewer of a deep network, whose runs take longer
  const FEW = 40;
  const DEEP = 100;

  let network = null;
  let input = null;
  let best = null; // {error, x}
  let attempted = false;
  let searching = null;
  let seed = 0;

  const about = element("div", {});
  const sliders = element("div", { class: "network-input" });
  const gauge = element("div", {});
  const score = element("dl", { class: "attack-score" });
  const verdict = element("p", { class: "network-error" });
  const slices = element("div", { class: "attack-slices" });
  const status = element("p", { class: "small soft", role: "status", "aria-live": "polite" });

  /* ---- pictures ---- */

  const top = () => network.data.upper ?? Math.max(best.error, 1e-300);

  const showGauge = (error) => {
    const share = (value) => MARK * Math.min(1.06, value / top());
    const { upper } = network.data;
    gauge.replaceChildren(svg("svg", {
      class: "attack-gauge", viewBox: "0 0 380 62", role: "img",
      "aria-label": upper === null ? "Errors found" : "Errors found, as a share of the proven bound",
    },
    svg("rect", { class: "track", x: 0, y: 8, width: 380, height: 24, rx: 5 }),
    svg("rect", { class: "best", x: 0, y: 8, width: share(best.error), height: 24, rx: 5 }),
    svg("rect", { class: "now", x: 0, y: 15, width: share(error), height: 10, rx: 4 }),
    ...(upper === null ? [] : [
      svg("line", { class: "bound", x1: MARK, x2: MARK, y1: 2, y2: 38 }),
      svg("text", { x: MARK, y: 55, "text-anchor": "middle" }, "proven bound"),
    ]),
    svg("text", { x: 0, y: 55 }, "0")));
    const cells = [
      ["here", seen(error)],
      ["best so far", seen(best.error)],
      ["proven bound", upper === null ? "none" : bound(upper)],
    ];
    score.replaceChildren(...cells.map(([name, text]) =>
      element("div", {}, element("dt", {}, name), element("dd", {}, text))));
    verdict.replaceChildren(...prose(sentence()));
  };

  const sentence = () => {
    const { upper } = network.data;
    const rounding = upper !== null && upper < ROUNDING ? " Only rounding is left to attack here; try wave." : "";
    if (upper !== null && best.error > upper) return "The error is above the bound: please report this.";
    if (!attempted) return `No attack yet: drag the input, or let the computer try.${rounding}`;
    if (upper === null) return `The largest error found so far is ${seen(best.error)}; no bound is proved.`;
    const share = 100 * best.error / upper;
    const percent = share < 0.1 ? "under 0.1 %" : `${Math.floor(10 * share) / 10} %`;
    return `The best attack so far reaches ${percent} of the bound. No input can pass it: that is proved.${rounding}`;
  };

  /* The error along each coordinate, through the input: where to drag. */
  const showSlices = (x) => {
    const height = Math.max(top(), best.error);
    const samples = network.data.layers.length > DEEP ? FEW : SAMPLES;
    slices.replaceChildren(...x.map((value, at) => {
      const points = Array.from({ length: samples + 1 }, (_, k) => {
        const there = [...x];
        there[at] = k / samples;
        return [100 * k / samples, 72 - 66 * network.error(there) / height];
      });
      const line = points.map((point) => point.map((one) => one.toFixed(2)).join(",")).join(" ");
      return element("figure", {},
        element("figcaption", {}, `Error as token ${at} moves`),
        svg("svg", {
          class: "attack-slice", viewBox: "0 0 100 74", preserveAspectRatio: "none", role: "img",
          "aria-label": `Error as token ${at} moves from 0 to 1, now at ${value.toFixed(3)}`,
        },
        svg("polygon", { class: "under", points: `0,72 ${line} 100,72` }),
        svg("polyline", { class: "error", points: line }),
        ...(network.data.upper === null ? [] : [svg("line", { class: "bound", x1: 0, x2: 100, y1: 6, y2: 6 })]),
        svg("line", { class: "here", x1: 100 * value, x2: 100 * value, y1: 2, y2: 72 })));
    }));
  };

  const moved = (x) => {
    const error = network.error(x);
    if (best === null || error > best.error) best = { error, x };
    showGauge(error);
    showSlices(x);
    if (!searching) announceSoon(() => `Error ${seen(error)} here. ${sentence()}`);
  };

  /* ---- the computer's turn ---- */

  const progress = element("progress", { max: EVALUATIONS, "aria-label": "Inputs tried", hidden: true });
  const attackButton = element("button", { type: "button", class: "primary", onclick: () => (searching ? stop("Stopped") : search()) });
  const nameButton = () => {
    attackButton.textContent = searching ? "Stop" : "Let the computer try";
  };
  const stop = (why) => {
    if (!searching) return;
    cancelAnimationFrame(searching.frame);
    const { tried } = searching.found;
    searching = null;
    progress.hidden = true;
    nameButton();
    showGauge(network.error(input.x()));
    status.replaceChildren(...prose(`${why} after ${tried.toLocaleString("en")} inputs. ${sentence()}`));
  };
  /* The input on its way to the best point: a quarter of what is left. */
  const towards = (goal) => {
    const here = input.x();
    const far = Math.max(...goal.map((value, at) => Math.abs(value - here[at])));
    if (far === 0) return;
    input.set(far < NEAR ? [...goal] : here.map((value, at) => value + (goal[at] - value) / 4));
  };
  const search = () => {
    attempted = true;
    seed += 1;
    const found = AttackSearch.search({ error: network.error, tokens: network.data.tokens, seed, start: input.x() });
    searching = { found, frame: null };
    progress.hidden = false;
    nameButton();
    status.textContent = "Searching ...";
    const go = () => {
      const end = performance.now() + BETWEEN;
      const pause = calm() ? EVALUATIONS : Math.min(EVALUATIONS, found.tried + AT_ONCE);
      while (found.tried < pause && performance.now() < end) found.step();
      progress.value = found.tried;
      if (found.best > best.error) best = { error: found.best, x: found.x };
      if (found.tried >= EVALUATIONS) {
        input.set([...best.x]);
        stop("Done");
        return;
      }
      if (!calm()) towards(best.x); // who prefers reduced motion sees the end of it
      searching.frame = requestAnimationFrame(go);
    };
    go();
  };

  sliders.addEventListener("input", () => { // the reader's turn; before the slider's own listener
    attempted = true;
    stop("Stopped");
  }, { capture: true });
  const middle = () => Array(network.data.tokens).fill(0.5);
  const open = (name) => {
    stop("Stopped");
    network = Blocks.named(name);
    best = null;
    attempted = false;
    seed = 0;
    status.textContent = "";
    about.replaceChildren(facts(network.data));
    input = inputs({ tokens: network.data.tokens, value: middle(), onchange: moved });
    sliders.replaceChildren(input.node);
    moved(middle());
  };

  const chosen = choice({ value: "wave", onchange: open });
  const buttons = [
    attackButton,
    element("button", { type: "button", onclick: () => input.set([...best.x]) }, "Go to the best"),
    element("button", { type: "button", onclick: () => open(network.data.name) }, "Reset"),
  ];
  nameButton();
  panel.append(
    element("header", { class: "network-head" },
      element("h1", {}, "Break the bound, if you can"),
      element("p", { class: "soft" }, "The error of this network is proved to stay below a bound, for all inputs at "
        + "once. Drag the input to make the error as large as you can.")),
    element("div", { class: "attack-top" },
      element("section", { class: "card" }, element("h2", {}, "Input"), chosen.node, about, sliders,
        element("div", { class: "buttons" }, ...buttons), progress, status),
      element("section", { class: "card" }, element("h2", {}, "Error"), gauge, score, verdict, slices)),
  );
  open("wave");
});
