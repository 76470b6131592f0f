"use strict";
/* Pictures of a network at work: outputs beside their targets, the residual stream, attention. */

window.NetworkView = (() => {
  const { element, svg } = Play;
  const { number, bound, seen, prose } = NetworkParts;

  const position = (network, at) => (at < network.first ? "BOS" : String(at - network.first));

  /* ---- outputs ---- */

  const WIDE = 360;
  const HIGH = 190;
  const EDGE = { left: 40, right: 8, top: 10, bottom: 24 };

  /* f and T for each token, with the band in which T is proved to be. */
  const outputs = (data, target, made) => {
    const room = data.upper ?? 0;
    const lowest = Math.min(0, ...target.map((y) => y - room), ...made);
    const highest = Math.max(1, ...target.map((y) => y + room), ...made);
    const y = (value) => EDGE.top + (HIGH - EDGE.top - EDGE.bottom) * (highest - value) / (highest - lowest);
    const step = (WIDE - EDGE.left - EDGE.right) / target.length;
    const picture = svg("svg", {
      class: "network-plot", viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img",
      "aria-label": "Target and output of each token, with the proven band; the table has the numbers",
    });
    const apart = (value) => value === 0 || Math.abs(y(value) - y(0)) > 14;
    for (const value of [lowest, 0, highest].filter((one, at, all) => all.indexOf(one) === at && apart(one)))
      picture.append(
        svg("line", { class: "axis", x1: EDGE.left, x2: WIDE - EDGE.right, y1: y(value), y2: y(value) }),
        svg("text", { x: EDGE.left - 6, y: y(value) + 4, "text-anchor": "end" }, number(Number(value.toPrecision(2)))),
      );
    target.forEach((wanted, at) => {
      const left = EDGE.left + at * step + step * 0.14;
      const width = step * 0.72;
      const height = Math.max(2, y(wanted - room) - y(wanted + room));
      if (data.upper !== null)
        picture.append(svg("rect", { class: "band", x: left, width, y: y(wanted) - height / 2, height, rx: 3 }));
      picture.append(
        svg("line", { class: "target", x1: left, x2: left + width, y1: y(wanted), y2: y(wanted) }),
        svg("circle", { class: "made", cx: left + width / 2, cy: y(made[at]), r: 5 }),
        svg("text", { x: left + width / 2, y: HIGH - 7, "text-anchor": "middle" }, `token ${at}`),
      );
    });
    const key = (kind, text) => element("span", {}, element("span", { class: `key ${kind}` }), element("span", {}, ...prose(text)));
    const thin = y(0) - y(room) < 1 ? ", thinner than the line" : "";
    const legend = element("p", { class: "network-legend small soft" },
      key("target", "target f"), key("made", "network T"),
      data.upper === null ? null : key("band", `proven band, ± ${bound(data.upper)}${thin}`));
    return element("figure", {}, picture, legend);
  };

  const outputTable = (data, x, target, made) => {
    const head = ["token", "input", "target f", "network T", "error"];
    const rows = target.map((wanted, at) => [
      at, x[at].toFixed(3), number(wanted), number(made[at]), seen(Math.abs(wanted - made[at])),
    ]);
    return element("table", { class: "network-numbers" },
      element("thead", {}, element("tr", {}, ...head.map((name) => element("th", { scope: "col" }, name)))),
      element("tbody", {}, ...rows.map(([token, ...cells]) => element("tr", {},
        element("th", { scope: "row" }, String(token)), ...cells.map((cell) => element("td", {}, cell))))));
  };

  /* ---- the residual stream ---- */

  /* The name of each feature once a step is done: what the stage is about, then what earlier stages
     left, then what was added to the input. */
  const names = (data, layer) => {
    const found = Array(data.width).fill("");
    const claim = (first, count, label) => {
      if (found.slice(first, first + count).every((name) => name === ""))
        found.fill(label, first, first + count);
    };
    if (layer < 0) claim(0, data.in_features, "x");
    let end = data.layers.length;
    for (const stage of [...data.stages].reverse()) {
      end -= stage.layers;
      const { first, count, label, digits } = stage.reading;
      if (layer >= end && digits.length === 0 && count < data.width) claim(first, count, label);
    }
    for (const [at, label] of Object.entries(data.registers)) claim(Number(at), 1, label);
    return found;
  };

  const shade = (cell, value, most) => {
    const share = most === 0 ? 0 : Math.round(55 * Math.sqrt(Math.abs(value) / most));
    const colour = value < 0 ? "var(--kind-1)" : "var(--kind-0)";
    cell.style.background = share === 0 ? "" : `color-mix(in srgb, ${colour} ${share}%, transparent)`;
  };

  /* Rows: tokens; columns: features, under the names that are known. Returns {node, show(step,
     before, most)}; cells that differ from the step before are outlined. */
  const stream = (network) => {
    const { data, count } = network;
    const columns = Array.from({ length: data.width }, (_, at) => at);
    const groups = element("tr", {});
    const numbers = element("tr", {}, element("th", { scope: "col" }, "token"),
      ...columns.map((at) => element("th", { scope: "col" }, String(at))));
    const rows = Array.from({ length: count }, (_, row) => element("tr", {},
      element("th", { scope: "row" }, position(network, row)), ...columns.map(() => element("td", {}))));
    const cells = rows.flatMap((row) => [...row.children].slice(1));
    const node = element("table", { class: "network-stream" },
      element("caption", { class: "visually-hidden" }, "The features of every token after this step"),
      element("thead", {}, groups, numbers), element("tbody", {}, ...rows));

    const showNames = (labels) => {
      groups.replaceChildren(element("td", {}));
      for (let at = 0; at < data.width;) {
        let end = at + 1;
        while (end < data.width && labels[end] === labels[at]) end += 1;
        groups.append(element("th", { scope: "colgroup", colspan: end - at, class: labels[at] ? "named" : "" }, labels[at]));
        at = end;
      }
    };
    const show = (step, before, most) => {
      showNames(names(data, step.layer));
      cells.forEach((cell, at) => {
        const value = step.state[at];
        const changed = before && before.state[at] !== value;
        cell.textContent = number(value);
        cell.className = changed ? "changed" : value === 0 ? "zero" : "";
        shade(cell, value, most[at % data.width]);
      });
    };
    return { node, show };
  };

  /* For each feature the largest number that it holds in any step. */
  const largest = (data, steps) => {
    const most = Array(data.width).fill(0);
    for (const { state } of steps)
      state.forEach((value, at) => { most[at % data.width] = Math.max(most[at % data.width], Math.abs(value)); });
    return most;
  };

  /* ---- attention ---- */

  /* One small matrix for each head that writes anything: row i, column j: the weight with which
     token i attends to token j. */
  const attention = (network, step) => {
    const { count, data } = network;
    const masks = data.masks[data.layers[step.layer].attention.mask];
    const most = Math.max(1, ...step.weights.map(Math.abs));
    const range = Array.from({ length: count }, (_, at) => at);
    const heads = [...step.writes].sort((a, b) => a - b);
    return element("div", { class: "network-heads" }, ...heads.map((head) => {
      const mask = masks[head % masks.length];
      const rows = range.map((i) => element("tr", {},
        element("th", { scope: "row" }, position(network, i)),
        ...range.map((j) => {
          const open = mask[i][j] === "1";
          const weight = step.weights[(head * count + i) * count + j];
          const cell = element("td", { class: open ? "" : "masked" }, open ? number(Number(weight.toPrecision(2))) : "");
          if (open) shade(cell, weight, most);
          else cell.append(element("span", { class: "visually-hidden" }, "masked"));
          return cell;
        })));
      return element("table", {},
        element("caption", {}, `head ${head}`),
        element("thead", {}, element("tr", {}, element("td", {}),
          ...range.map((j) => element("th", { scope: "col" }, position(network, j))))),
        element("tbody", {}, ...rows));
    }));
  };

  return { outputs, outputTable, stream, largest, attention };
})();
