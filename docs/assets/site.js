// Code and tables that scroll are reached by the keyboard, and the search has a name.
document.addEventListener("DOMContentLoaded", () => {
  for (const code of document.querySelectorAll("pre > code")) code.tabIndex = 0;
  // The theme wraps tables when the page is there.
  addEventListener("load", () => {
    for (const table of document.querySelectorAll(".md-typeset__scrollwrap")) table.tabIndex = 0;
  });
  document.querySelector(".md-search")?.setAttribute("aria-label", "Search");
});
