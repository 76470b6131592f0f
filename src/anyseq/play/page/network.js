"use strict";
/* The tab "Network": choose a constructed network, move its input, walk through its layers. */

Play.tab("network", "Network", (panel) => {
  const { element, player, announceSoon } = Play;
  const { bound, seen, prose, choice, facts, inputs, presets } = NetworkParts;
  const view = NetworkView;

  let network = null;
  let ran = null; // {steps, outputs} for the input
  let most = [];
  let table = null; // the residual stream
  let step = 0;
  let input = null;

  /* ---- what is shown ---- */

  const about = element("div", {});
  const sliders = element("div", { class: "network-input" });
  const output = element("div", { class: "network-output" });
  const stages = element("ol", { class: "network-stages" });
  const says = element("p", { class: "network-says" });
  const stream = element("div", { class: "network-scroll", role: "region", tabindex: 0, "aria-label": "Residual stream" });
  const further = element("p", { class: "small soft", "aria-hidden": "true" }, "scroll →");
  const fits = new ResizeObserver(() => { further.hidden = stream.scrollWidth <= stream.clientWidth; });
  const attends = element("div", { class: "network-attends" });

  const stepText = (at) => {
    if (!ran) return "";
    const { layer, half } = ran.steps[at];
    return layer < 0 ? "the input" : `layer ${layer + 1}: ${half}`;
  };
  const walk = player({
    label: "Step", last: 0, text: stepText, milliseconds: 1000,
    show: (at) => {
      step = at;
      if (ran) showStep();
    },
  });

  const stageOf = (layer) => {
    let first = 0;
    for (const stage of network.data.stages) {
      if (layer < first + stage.layers) return { stage, first };
      first += stage.layers;
    }
    throw new Error(`layer ${layer} belongs to no stage`);
  };

  const showStep = () => {
    const now = ran.steps[step];
    table.show(now, ran.steps[step - 1], most);
    const { stage } = stageOf(Math.max(0, now.layer));
    for (const button of stages.querySelectorAll("button"))
      if (now.layer >= 0 && button.dataset.stage === stage.name) button.setAttribute("aria-current", "step");
      else button.removeAttribute("aria-current");
    says.textContent = now.layer < 0
      ? "What enters the first layer: each token's own number and what tells its position."
      : stage.does;
    attends.replaceChildren(...(now.half === "attention"
      ? [element("p", { class: "small soft" }, "Row i, column j: the weight with which token i attends to token j; hatched where it may not. Heads that add nothing are left out."),
        view.attention(network, now)]
      : [element("p", { class: "soft" }, now.layer < 0
        ? "No layer has run yet."
        : "A feed-forward half: every token computes by itself, none attends to another.")]));
  };

  const errorText = () => {
    const error = Math.max(...network.target(input.x()).map((wanted, at) => Math.abs(wanted - ran.outputs[at])));
    const { upper } = network.data;
    return upper === null
      ? `The error is ${seen(error)} here; no bound is proved.`
      : `The error is ${seen(error)} here; at most ${bound(upper)} is proved.`;
  };

  const showInput = (x) => {
    ran = network.trace(x);
    most = view.largest(network.data, ran.steps);
    const target = network.target(x);
    output.replaceChildren(
      view.outputs(network.data, target, ran.outputs),
      element("p", { class: "network-error" }, ...prose(errorText())),
      view.outputTable(network.data, x, target, ran.outputs),
    );
    showStep();
    announceSoon(errorText);
  };

  const open = (name) => {
    network = Blocks.named(name);
    const { data } = network;
    about.replaceChildren(facts(data));
    ran = null;
    step = 0;
    table = view.stream(network);
    stream.replaceChildren(table.node);
    fits.disconnect();
    for (const node of [stream, table.node]) fits.observe(node);
    const start = Array.from({ length: data.tokens }, (_, at) => [0.7, 0.2, 0.5, 0.9][at % 4]);
    input = inputs({ tokens: data.tokens, value: start, onchange: showInput });
    const buttons = presets(data.tokens).map(([text, make]) =>
      element("button", { type: "button", onclick: () => input.set(make()) }, text));
    sliders.replaceChildren(input.node, element("div", { class: "buttons" }, ...buttons));
    showStages();
    showInput(start);
    walk.reset(ran.steps.length - 1);
  };

  /* A button for each stage, which shows the state at its end. */
  const showStages = () => {
    let first = 0;
    stages.replaceChildren(...network.data.stages.map((stage) => {
      const from = first;
      first += stage.layers;
      const end = first;
      const layers = stage.layers === 1 ? `layer ${from + 1}` : `layers ${from + 1} to ${end}`;
      const button = element("button", {
        type: "button", "data-stage": stage.name,
        onclick: () => {
          const at = ran.steps.findLastIndex((one) => one.layer < end);
          walk.reset(ran.steps.length - 1, at);
        },
      }, element("strong", {}, stage.name), element("span", { class: "small soft" }, layers));
      return element("li", {}, button);
    }));
  };

  /* ---- the page ---- */

  const chosen = choice({ value: "sort", onchange: open });
  panel.append(
    element("header", { class: "network-head" },
      element("h1", {}, "A function, written as a Transformer"),
      element("p", { class: "soft" }, "These networks were not trained: every weight was computed so that "
        + "the network approximates the function, with a proven bound for its error. They run in "
        + "your browser, in float64, layer by layer.")),
    element("div", { class: "network-top" },
      element("section", { class: "card" }, element("h2", {}, "Input"), chosen.node, about, sliders),
      element("section", { class: "card" }, element("h2", {}, "Output"), output)),
    element("section", { class: "card" },
      element("h2", {}, "Layer by layer"),
      stages, walk.node, says,
      element("div", { class: "network-step" },
        element("div", { class: "network-part" },
          element("h3", {}, "Residual stream"),
          element("p", { class: "small soft" }, "A row for each token, a column for each feature. Blue is above 0, orange "
            + "below; outlined is what this step changed."),
          further, stream),
        element("div", { class: "network-part" }, element("h3", {}, "Attention"), attends))),
  );
  panel.append(window.NetworkAsk.section((data) => {
    Blocks.put(data);
    chosen.input.value = data.name;
    open(data.name);
    panel.querySelector("h1").scrollIntoView({ behavior: Play.calm() ? "auto" : "smooth" });
  }));
  open("sort");
});
