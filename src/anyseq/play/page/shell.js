"use strict";
/* The shell of the page: tabs, theme, and the small helpers that the tabs share.

   Tabs. A tab is a script file (or several) that index.html includes, and that ends with

       Play.tab("network", "Network", (panel) => { ... });

   in the order in which the tabs stand. mount(panel) is called once, when the tab is first opened;
   the address `index.html#network` opens it. A tab owns what is inside its panel, the style classes
   that start with its name, and one global object of its name (window.Design, window.Network, ...).

   Scripts are classic and share one global scope: wrap each file in a function or a block, so that
   it adds to the scope nothing but its object. The policy of the page forbids inline scripts, inline
   styles (node.style.left = ... is allowed, a style attribute in HTML is not), eval and all that
   comes from elsewhere; so data are scripts too: `window.Networks = {...};`.

   Server. window.ANYSEQ_SERVER is true if `anyseq play` serves the page, false otherwise
   (server.js sets it). Then Play.ask(path, body) posts JSON to the library:

       POST /api/check {tokens, mask | pattern, position, bos, depth, prob_map}
         tokens: a number; mask: rows of 0 and 1, over BOS and tokens if bos is true; or pattern: a
         name as at the command line, e.g. "window(2)", or a list of them that layers take in turn;
         position: a name, e.g. "rope"; bos: true or false; depth: a number, or null for any;
         prob_map: a name, e.g. "topk(2)", softmax unless given
      -> {verdicts: [{norm: "sup" | "lp", target: "all" | "causal", universal: true | false | null,
                      headline, reason, findings: [{rule, holds, saw, theorem}]}, ...],
          reach: [mask of pairs [k][j] of tokens (rows of 0 and 1) after 0, 1, 2, ... layers],
          colours: [colour numbers of the tokens after 0, 1, 2, ... rounds]}
      or an error status and {error: "one sentence for the reader"}.

   What the page computes by itself is computed here also when there is a server. */

window.Play = (() => {
  const tabs = [];

  /* ---- making elements ---- */

  const make = (node, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) {
      if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
      else if (value === true) node.setAttribute(name, "");
      else if (value !== false && value !== null && value !== undefined)
        node.setAttribute(name, value);
    }
    node.append(...children.filter((child) => child !== null && child !== undefined));
    return node;
  };

  /* element("button", {class: "quiet", onclick: f}, "Text", anotherNode): an HTML element. */
  const element = (tag, attributes = {}, ...children) =>
    make(document.createElement(tag), attributes, children);

  /* The same for pictures: svg("rect", {x: 0, y: 0, width: 1, height: 1}). */
  const svg = (tag, attributes = {}, ...children) =>
    make(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

  let ids = 0;
  const freshId = (stem) => `${stem}-${++ids}`;

  /* ---- controls: each a label that names its input ---- */

  /* A select. options: [[value, text], ...]. Returns {node, input}. */
  const select = ({ label, options, value, onchange }) => {
    const input = element("select", { id: freshId("select") });
    for (const [name, text] of options) input.append(element("option", { value: name }, text));
    input.value = value;
    input.addEventListener("change", () => onchange(input.value));
    const name = element("label", { for: input.id }, label);
    return { node: element("div", { class: "field" }, name, input), input };
  };

  /* A line of text, or a number with type: "number"; attributes are the input's. */
  const field = ({ label, ...attributes }) => {
    const usual = { id: freshId("field"), autocomplete: "off", spellcheck: "false" };
    const input = element("input", { ...usual, ...attributes });
    const name = element("label", { for: input.id }, label);
    return { node: element("div", { class: "field" }, name, input), input };
  };

  /* A slider with its value beside it. text(value) says the value. Returns {node, input, set}. */
  const slider = ({ label, min, max, step = 1, value, text = String, oninput }) => {
    const input = element("input", { type: "range", id: freshId("slider"), min, max, step });
    const shown = element("output", { for: input.id });
    const show = () => {
      shown.textContent = text(Number(input.value));
      input.setAttribute("aria-valuetext", shown.textContent);
    };
    const set = (number) => {
      input.value = number;
      show();
    };
    input.addEventListener("input", () => {
      show();
      oninput(Number(input.value));
    });
    set(value);
    const name = element("label", { for: input.id }, label);
    return { node: element("div", { class: "field slider" }, name, input, shown), input, set };
  };

  /* A checkbox. Returns {node, input}. */
  const checkbox = ({ label, checked, onchange }) => {
    const input = element("input", { type: "checkbox", id: freshId("check") });
    input.checked = checked;
    input.addEventListener("change", () => onchange(input.checked));
    const name = element("label", { for: input.id }, label);
    return { node: element("div", { class: "field check" }, input, name), input };
  };

  /* ---- playing through steps ---- */

  const calm = () => window.matchMedia("(prefers-reduced-motion: reduce)").matches;

  /* Play, step and slider over the steps 0, ..., last. show(step) draws one; text(step) says it.
     Returns {node, reset(last, step)}. Who prefers reduced motion gets no moving picture: "Play"
     is left out, "Back" and "Step" stay. */
  const player = ({ label, last, text, show, milliseconds = 900 }) => {
    let step = 0;
    let end = last;
    let timer = null;
    const slide = slider({
      label, min: 0, max: last, value: 0, text,
      oninput: (value) => { stop(); go(value); },
    });
    const play = element("button", { type: "button", onclick: () => (timer ? stop() : run()) });
    const back = element("button", { type: "button", onclick: () => { stop(); go(step - 1); } }, "Back");
    const next = element("button", { type: "button", onclick: () => { stop(); go(step + 1); } }, "Step");
    play.hidden = calm();
    for (const [button, name] of [[back, "one step back"], [next, "one step on"]])
      button.setAttribute("aria-label", `${label}: ${name}`);
    const name = (running) => {
      play.textContent = running ? "Pause" : "Play";
      play.setAttribute("aria-label", `${label}: ${running ? "pause" : "play"}`);
    };
    const go = (value) => {
      step = Math.max(0, Math.min(end, value));
      slide.set(step);
      // not `disabled`, which would lose the focus of who presses the button
      back.setAttribute("aria-disabled", step === 0);
      next.setAttribute("aria-disabled", step === end);
      show(step);
    };
    const stop = () => {
      clearInterval(timer);
      timer = null;
      name(false);
    };
    const run = () => {
      if (end === 0) return;
      if (step === end) go(0);
      name(true);
      timer = setInterval(() => {
        if (step < end && play.isConnected) go(step + 1);
        if (step === end) stop();
      }, milliseconds);
    };
    const reset = (newLast, newStep = 0) => {
      stop();
      end = newLast;
      slide.input.max = newLast;
      slide.input.disabled = newLast === 0;
      go(newStep);
    };
    name(false);
    reset(last);
    const buttons = element("div", { class: "buttons" }, play, back, next);
    return { node: element("div", { class: "player" }, buttons, slide.node), reset };
  };

  /* Tells a screen reader what has changed; what it was told last is not said again. */
  let hand = null; // the timer of what is said once the reader's hand rests
  const announce = (text) => {
    clearTimeout(hand);
    const announcer = document.getElementById("announcer");
    if (announcer.textContent !== text) announcer.textContent = text;
  };
  const announceSoon = (text) => {
    clearTimeout(hand);
    hand = setTimeout(() => announce(text()), 600);
  };

  /* ---- the library, if it is there ---- */

  const ask = async (path, body) => {
    const answer = await fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
    });
    const said = await answer.json();
    if (!answer.ok) throw new Error(said.error);
    return said;
  };

  /* ---- tabs ---- */

  const tab = (name, title, mount) => {
    const button = element("button", {
      type: "button", role: "tab", id: `tab-${name}`, "aria-controls": `panel-${name}`,
      onclick: () => { open(name); },
    }, title);
    const panel = element("section", {
      role: "tabpanel", id: `panel-${name}`, class: `panel ${name}`, "aria-labelledby": button.id,
    });
    document.getElementById("tabs").append(button);
    document.getElementById("panels").append(panel);
    tabs.push({ name, title, mount, button, panel, mounted: false });
  };

  const open = (name) => {
    announce(""); // what was said is of another tab
    for (const one of tabs) {
      const chosen = one.name === name;
      one.button.setAttribute("aria-selected", chosen);
      one.button.tabIndex = chosen ? 0 : -1; // the arrow keys go between tabs
      one.panel.hidden = !chosen;
      if (!chosen || one.mounted) continue;
      one.mounted = true;
      one.mount(one.panel);
    }
    if (window.location.hash !== `#${name}`) window.history.replaceState(null, "", `#${name}`);
  };

  const keys = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };
  const moveBetweenTabs = (event) => {
    if (!(event.key in keys)) return;
    event.preventDefault();
    const now = tabs.findIndex((one) => one.button === document.activeElement);
    const by = keys[event.key];
    const to = Number.isFinite(by) ? (now + by + tabs.length) % tabs.length : by < 0 ? 0 : tabs.length - 1;
    open(tabs[to].name);
    tabs[to].button.focus();
  };

  /* ---- theme: the reader's choice, else the system's ---- */

  const remembered = () => {
    try { return window.localStorage.getItem("theme"); } catch { return null; }
  };
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : window.matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const setTheme = (theme) => {
    if (theme === "dark" || theme === "light") document.documentElement.dataset.theme = theme;
    document.getElementById("theme").textContent = isDark() ? "Light" : "Dark";
    document.getElementById("theme").setAttribute("aria-label", `${isDark() ? "Light" : "Dark"} colours`);
  };
  const toggleTheme = () => {
    setTheme(isDark() ? "light" : "dark");
    try {
      window.localStorage.setItem("theme", document.documentElement.dataset.theme);
    } catch { /* it is not kept, where storage is forbidden */ }
  };

  const start = () => {
    const named = () => tabs.find((one) => `#${one.name}` === window.location.hash);
    setTheme(remembered());
    document.getElementById("theme").addEventListener("click", toggleTheme);
    document.getElementById("tabs").addEventListener("keydown", moveBetweenTabs);
    window.addEventListener("hashchange", () => { if (named()) open(named().name); });
    open((named() ?? tabs[0]).name);
  };

  return {
    element, svg, freshId, select, field, slider, checkbox, player, calm, announce, announceSoon, ask, tab,
    open, start,
  };
})();
