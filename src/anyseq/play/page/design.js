"use strict";
Play.tab("design", "Design", (panel) => {
  panel.append(Play.element("h1", {}, "Can this design express every function?"));
});
