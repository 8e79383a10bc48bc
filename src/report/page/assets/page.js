// Behaviour of the whole page: the highlighted implementation, and the navigation.

// ---- Highlighting of one implementation in all charts and tables ----

const banner = document.getElementById("filtered");

function highlight(series) {
  const name = series?.dataset.implementation ?? null;
  if (series && !name) return;
  highlighted = name === highlighted ? null : name;
  for (const other of document.querySelectorAll("g.series[data-implementation]"))
    other.classList.toggle("dim", highlighted !== null && other.dataset.implementation !== highlighted);
  for (const table of tables) {
    table.only = highlighted;
    table.show();
  }
  banner.hidden = highlighted === null;
  banner.querySelector("b").textContent = highlighted ?? "";
}
banner.querySelector("button").addEventListener("click", () => highlight(null));
addEventListener("keydown", (event) => { if (event.key === "Escape" && highlighted !== null) highlight(null); });

// ---- Navigation ----

const menu = document.querySelector("nav .menu"), links = [...document.querySelectorAll("nav a")];
const openMenu = (open) => menu.setAttribute("aria-expanded", String(open));
menu.addEventListener("click", () => openMenu(menu.getAttribute("aria-expanded") !== "true"));
for (const link of links) link.addEventListener("click", () => openMenu(false));

// The current section is the last one that begins in the top third of the window or above it.
const sections = links.map((link) => document.getElementById(link.hash.slice(1)));
const mark = () => {
  let current = 0;
  sections.forEach((section, i) => { if (section.getBoundingClientRect().top < innerHeight / 3) current = i; });
  links.forEach((link, i) => {
    if (i === current) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  });
};
let waiting = false;
addEventListener("scroll", () => {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; mark(); });
}, {passive: true});
mark();
