"use strict";
/* The mask as a grid to paint: click or drag, or move with the arrow keys and toggle with space.
   One cell is in the tab order, the one that was focused last. */

window.Design = window.Design ?? {};

Design.grid = (() => {
  const { element } = Play;

  /* paint(i, j, value) is called for each cell that the reader changes. Returns {node, show}. */
  const grid = ({ label, paint }) => {
    const node = element("div", {
      class: "design-grid", role: "grid", "aria-label": label, "aria-multiselectable": "true",
    });
    let cells = []; // cells[i][j]
    let focus = [0, 0];
    let brush = null; // the value that is being painted while the pointer is down

    const isOn = (cell) => cell.getAttribute("aria-selected") === "true";
    const placeOf = (target) => target?.closest?.(".design-cell")?.dataset;

    const focusOn = (i, j) => {
      cells[focus[0]]?.[focus[1]]?.setAttribute("tabindex", -1);
      focus = [i, j];
      cells[i][j].tabIndex = 0;
    };

    const build = (names) => {
      focus = focus.map((at) => Math.min(at, names.length - 1));
      const header = (role, ...name) => element("span", { role, class: "design-name" }, ...name);
      const row = (...children) => element("div", { role: "row" }, ...children);
      const empty = (i, j) => element("span", {
        role: "gridcell", class: "design-cell", "data-i": i, "data-j": j, tabindex: -1,
      });
      cells = names.map((_, i) => names.map((__, j) => empty(i, j)));
      node.replaceChildren(
        row(header("columnheader", element("span", { class: "visually-hidden" }, "token")),
          ...names.map((name) => header("columnheader", name))),
        ...cells.map((those, i) => row(header("rowheader", names[i]), ...those)),
      );
      node.style.setProperty("--size", names.length);
      focusOn(...focus);
    };

    /* names: of the positions, such as "BOS", "0", "1". */
    const show = (mask, names) => {
      if (cells.length !== names.length || node.dataset.names !== names.join()) build(names);
      node.dataset.names = names.join();
      const called = (name) => (name === "BOS" ? name : `token ${name}`);
      mask.forEach((row, i) => row.forEach((yes, j) => {
        cells[i][j].setAttribute("aria-selected", yes);
        const verb = yes ? "attends" : "does not attend";
        cells[i][j].setAttribute("aria-label", `${called(names[i])} ${verb} to ${called(names[j])}`);
      }));
    };

    node.addEventListener("pointerdown", (event) => {
      const place = placeOf(event.target);
      if (!place || event.button !== 0) return;
      event.preventDefault();
      node.setPointerCapture(event.pointerId);
      brush = !isOn(cells[place.i][place.j]);
      focusOn(Number(place.i), Number(place.j));
      cells[place.i][place.j].focus({ preventScroll: true });
      paint(Number(place.i), Number(place.j), brush);
    });
    node.addEventListener("pointermove", (event) => {
      if (brush === null) return;
      const place = placeOf(document.elementFromPoint(event.clientX, event.clientY));
      if (!place || !node.contains(cells[place.i]?.[place.j])) return;
      if (isOn(cells[place.i][place.j]) !== brush) paint(Number(place.i), Number(place.j), brush);
    });
    for (const end of ["pointerup", "pointercancel"]) node.addEventListener(end, () => { brush = null; });

    const MOVES = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    node.addEventListener("keydown", (event) => {
      const [i, j] = focus;
      const last = cells.length - 1;
      let to = null;
      if (event.key in MOVES) to = [i + MOVES[event.key][0], j + MOVES[event.key][1]];
      if (event.key === "Home") to = [i, 0];
      if (event.key === "End") to = [i, last];
      if (to !== null) {
        focusOn(...to.map((at) => Math.max(0, Math.min(last, at))));
        cells[focus[0]][focus[1]].focus();
      } else if (event.key === " " || event.key === "Enter") {
        paint(i, j, !isOn(cells[i][j]));
      } else return;
      event.preventDefault();
    });

    return { node, show };
  };

  return { grid };
})();
