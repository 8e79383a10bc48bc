// Makes charts interactive: tooltips, switches of series, and the choice of view. All texts and
// positions are in the page already.

const figures = [...document.querySelectorAll("figure.chart")];
const tip = document.getElementById("tip"), spoken = document.getElementById("spoken");
document.documentElement.classList.add("js");

const seriesOf = (mark) => mark.closest("g.series");
const isShown = (mark) => !seriesOf(mark).classList.contains("off");

// ---- Tooltips ----

// The narrow picture takes its texts from the wide one, whose marks have the same order.
const textOf = (mark) => {
  if (mark.dataset.text) return mark.dataset.text;
  const [wide, narrow] = ["wide", "narrow"].map((width) => [...mark.closest(".plot").querySelectorAll(`svg.${width} .p`)]);
  return wide[narrow.indexOf(mark)].dataset.text;
};
const say = (mark) => `${seriesOf(mark).dataset.name}: ${textOf(mark)}`;

const showTip = (mark, box) => {
  tip.textContent = say(mark);
  tip.hidden = false;
  const width = tip.offsetWidth, height = tip.offsetHeight;
  const x = Math.min(Math.max(8, (box.left + box.right - width) / 2), document.documentElement.clientWidth - width - 8);
  const above = box.top - height - 10;
  tip.style.left = `${x}px`;
  tip.style.top = `${above > 4 ? above : box.bottom + 10}px`;
};

const markAt = (plot, mark) => {
  plot.querySelector(".at")?.classList.remove("at");
  mark?.classList.add("at");
  if (!mark) { tip.hidden = true; return; }
  showTip(mark, mark.getBoundingClientRect());
};

// Returns the mark nearest to the pointer, or null if all are far away.
const nearest = (plot, event) => {
  const within = 32;
  let best = null, least = within * within;
  for (const mark of plot.querySelectorAll(".p")) {
    if (!isShown(mark)) continue;
    const box = mark.getBoundingClientRect();
    if (box.width + box.height === 0) continue;
    const x = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
    const y = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
    if (x * x + y * y < least) [best, least] = [mark, x * x + y * y];
  }
  return best;
};

const stepThrough = (plot, event) => {
  const step = {ArrowRight: 1, ArrowLeft: -1, ArrowDown: 1, ArrowUp: -1}[event.key];
  if (event.key === "Escape") markAt(plot, null);
  if (!step) return;
  event.preventDefault();
  const marks = [...plot.querySelectorAll(".p")].filter((mark) => isShown(mark) && mark.getClientRects().length);
  if (!marks.length) return;
  const at = marks.indexOf(plot.querySelector(".at"));
  const mark = marks[(at + step + marks.length) % marks.length];
  markAt(plot, mark);
  spoken.textContent = say(mark);
};

const followPointer = (plot) => {
  let frame = 0;
  plot.addEventListener("pointermove", (event) => {
    cancelAnimationFrame(frame);
    frame = requestAnimationFrame(() => markAt(plot, nearest(plot, event)));
  });
  plot.addEventListener("pointerleave", () => { cancelAnimationFrame(frame); markAt(plot, null); });
  plot.addEventListener("blur", () => markAt(plot, null));
  plot.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && plot.querySelector(".at")) highlight(seriesOf(plot.querySelector(".at")));
    else stepThrough(plot, event);
  });
  plot.addEventListener("click", (event) => {
    const mark = nearest(plot, event);
    if (mark) highlight(seriesOf(mark));
  });
};

// ---- Switches of series ----

const applySwitches = (figure) => {
  const off = (kind) => new Set([...figure.querySelectorAll(`.key[data-${kind}][aria-pressed=false]`)].map((key) => key.dataset[kind]));
  const names = off("name"), groups = off("group"), works = off("work");
  for (const series of figure.querySelectorAll("g.series"))
    series.classList.toggle("off",
      names.has(series.dataset.name) || groups.has(series.dataset.group) || works.has(series.dataset.work));
  figure.dispatchEvent(new Event("switched"));
};

// Among arithmetic or kinds of work, a click shows one alone, and the next click all of them again.
const showAlone = (key) => {
  const keys = [...key.parentElement.querySelectorAll(".key")];
  const pressed = keys.filter((each) => each.getAttribute("aria-pressed") === "true");
  const isAlone = pressed.length === 1 && pressed[0] === key;
  for (const each of keys) each.setAttribute("aria-pressed", String(isAlone || each === key));
};

for (const figure of figures) {
  for (const plot of figure.querySelectorAll(".plot")) followPointer(plot);
  for (const key of figure.querySelectorAll(".key")) {
    key.addEventListener("click", () => {
      if (key.closest(".groups")) showAlone(key);
      else key.setAttribute("aria-pressed", String(key.getAttribute("aria-pressed") !== "true"));
      applySwitches(figure);
    });
  }
}

// ---- Choice of view ----

for (const select of document.querySelectorAll("select[data-views]")) {
  select.addEventListener("change", () => {
    for (const view of select.closest("section").querySelectorAll(".view")) view.hidden = view.dataset.view !== select.value;
  });
}
