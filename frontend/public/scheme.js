// Before the first paint: the colour scheme that was chosen, so that nothing flashes.
(function () {
  var chosen = null;
  try {
    chosen = localStorage.getItem("mantine-color-scheme-value");
  } catch {
    chosen = null;
  }
  if (chosen !== "light" && chosen !== "dark") {
    chosen = matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
  }
  document.documentElement.setAttribute("data-mantine-color-scheme", chosen);
})();
