// Not a module, so that it runs before the first paint and the page never flashes in the other theme.
"use strict";
(() => {
  try {
    const chosen = localStorage.getItem("lacuna.theme");
    if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  } catch {
    // Storage may be forbidden; the system's theme is used then.
  }
})();
