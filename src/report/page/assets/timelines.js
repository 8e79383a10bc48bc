// Timelines on a canvas: kernels on tracks, and memory as steps, with zoom, pan and search.

const inkOf = (name) => {
  const probe = document.createElement("i");
  probe.className = name;
  probe.hidden = true;
  document.body.append(probe);
  const ink = getComputedStyle(probe).color;
  probe.remove();
  return ink;
};
const variable = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

// Formats a time in milliseconds for an axis with ticks every `step` milliseconds.
const timeText = (ms, step) => {
  const [value, unit, size] = step < 1e-3 ? [ms * 1e6, "ns", step * 1e6] : step < 1 ? [ms * 1e3, "us", step * 1e3] : [ms, "ms", step];
  return `${value.toFixed(size < 1 ? 1 : 0)} ${unit}`;
};
const roundStep = (span) => {
  const power = 10 ** Math.floor(Math.log10(span / 6));
  return power * [1, 2, 5, 10].find((factor) => factor * power >= span / 6);
};

class Timeline {
  constructor(element) {
    this.canvas = element.querySelector("canvas");
    this.figure = element.closest("figure");
    this.isTracks = element.dataset.kind === "tracks";
    this.data = JSON.parse(element.querySelector("script").textContent);
    this.found = element.querySelector(".found");
    this.words = "";
    this.matches = [];
    this.at = null;
    this.hidden = [];
    this.whole = [this.data.x.min, this.data.x.max];
    this.from = this.whole[0];
    this.to = this.whole[1];
    this.items = this.data.series.flatMap((series, s) => series.points.map((point, i) => this.itemOf(series, s, point, i)));
    this.listen(element);
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  // Points are [track, begin, end, text] or [x, level, text, label]; texts and labels are indices.
  itemOf(series, s, point, i) {
    const {texts} = this.data;
    if (this.isTracks) return {s, track: point[0], from: point[1], to: point[2], text: texts[point[3]], label: ""};
    const next = series.points[i + 1];
    return {s, track: 0, from: point[0], to: next ? next[0] : this.data.x.max, level: point[1], text: texts[point[2]], label: texts[point[3]]};
  }

  get left() { return this.isTracks ? 8 : 76; }
  get width() { return this.canvas.clientWidth; }
  x(value) { return this.left + (value - this.from) / (this.to - this.from) * (this.width - this.left - 8); }
  value(x) { return this.from + (x - this.left) / (this.width - this.left - 8) * (this.to - this.from); }

  listen(element) {
    const {canvas} = this;
    element.querySelector("input").addEventListener("input", (event) => this.find(event.target.value));
    element.querySelector("input").addEventListener("keydown", (event) => { if (event.key === "Enter") this.next(); });
    for (const button of element.querySelectorAll("[data-do]"))
      button.addEventListener("click", () => this.zoom({in: 0.5, out: 2, all: Infinity}[button.dataset.do]));
    canvas.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;  // the page scrolls
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 0.8 : 1.25, this.value(event.offsetX));
    }, {passive: false});
    canvas.addEventListener("keydown", (event) => {
      const act = {"+": () => this.zoom(0.5), "-": () => this.zoom(2), "0": () => this.zoom(Infinity),
        ArrowLeft: () => this.move(-0.2), ArrowRight: () => this.move(0.2)}[event.key];
      if (act) { event.preventDefault(); act(); }
    });
    let dragged = null;
    canvas.addEventListener("pointerdown", (event) => { dragged = event.offsetX; });
    addEventListener("pointerup", () => { dragged = null; });
    canvas.addEventListener("pointermove", (event) => {
      if (dragged !== null) {
        this.move((dragged - event.offsetX) / this.width);
        dragged = event.offsetX;
      }
      this.point(event);
    });
    canvas.addEventListener("pointerleave", () => { this.at = null; tip.hidden = true; this.draw(); });
    canvas.addEventListener("dblclick", (event) => this.zoom(0.5, this.value(event.offsetX)));
    this.figure.addEventListener("switched", () => this.draw());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  show(from, to) {
    const [low, high] = this.whole;
    const span = Math.min(Math.max(to - from, (high - low) * 1e-5), high - low);
    this.from = Math.min(Math.max(from, low), high - span);
    this.to = this.from + span;
    this.draw();
  }
  zoom(factor, about = (this.from + this.to) / 2) {
    if (factor === Infinity) this.show(...this.whole);
    else this.show(about - (about - this.from) * factor, about + (this.to - about) * factor);
  }
  move(share) {
    const by = share * (this.to - this.from);
    this.show(this.from + by, this.to + by);
  }

  find(words) {
    this.words = words.trim().toLowerCase();
    this.matches = this.words ? this.items.filter((item) => item.text.toLowerCase().includes(this.words)) : [];
    this.current = -1;
    this.found.textContent = this.words ? `${this.matches.length} of ${this.items.length}` : "";
    this.draw();
  }
  // Scrolls to the next match.
  next() {
    if (!this.matches.length) return;
    this.current = (this.current + 1) % this.matches.length;
    const {from, to, text} = this.matches[this.current];
    const span = Math.max((to - from) * 12, (this.whole[1] - this.whole[0]) / 200);
    this.show((from + to - span) / 2, (from + to + span) / 2);
    this.found.textContent = `${this.current + 1} of ${this.matches.length}`;
    spoken.textContent = text;
  }

  point(event) {
    const at = this.value(event.offsetX);
    const slack = 2 * (this.to - this.from) / this.width;
    const row = this.isTracks ? Math.floor((event.offsetY - 4) / this.trackHeight) : 0;
    let best = null;
    for (const item of this.items)
      if (item.track === row && !this.hidden[item.s] && at >= item.from - slack && at <= item.to + slack &&
          (!best || (this.isTracks ? item.to - item.from < best.to - best.from : item.s > best.s))) best = item;
    if (best !== this.at) { this.at = best; this.draw(); }
    if (!best) { tip.hidden = true; return; }
    tip.textContent = best.text;
    tip.hidden = false;
    tip.style.left = `${Math.max(8, Math.min(event.clientX + 12, innerWidth - tip.offsetWidth - 8))}px`;
    tip.style.top = `${event.clientY + 16}px`;
  }

  isOff(s) {
    const name = this.data.series[s].name;
    return [...this.figure.querySelectorAll(".key[aria-pressed=false]")].some((key) => key.dataset.name === name);
  }

  get trackHeight() { return 44; }

  draw() {
    const {canvas} = this, scale = devicePixelRatio || 1;
    const height = this.isTracks ? this.trackHeight * this.data.tracks.length + 34 : 330;
    if (!this.width) return;
    canvas.style.height = `${height}px`;
    canvas.width = this.width * scale;
    canvas.height = height * scale;
    const pen = this.pen = canvas.getContext("2d");
    pen.scale(scale, scale);
    pen.font = "12px system-ui, sans-serif";
    this.inks = this.data.series.map(({colour}) => inkOf(colour));
    this.hidden = this.data.series.map((_, s) => this.isOff(s));
    (this.isTracks ? this.drawTracks : this.drawSteps).call(this, height);
  }

  drawTracks(height) {
    const {pen} = this, bottom = height - 30, step = roundStep(this.to - this.from);
    pen.strokeStyle = variable("--line");
    pen.fillStyle = variable("--quiet");
    pen.textAlign = "center";
    for (let at = Math.ceil(this.from / step) * step; at <= this.to; at += step) {
      pen.beginPath();
      pen.moveTo(this.x(at), 0);
      pen.lineTo(this.x(at), bottom);
      pen.stroke();
      pen.fillText(timeText(at, step), Math.min(Math.max(this.x(at), 24), this.width - 24), bottom + 18);
    }
    pen.textAlign = "left";
    this.data.tracks.forEach((name, i) => {
      pen.fillStyle = variable("--quiet");
      pen.fillText(name, this.left, i * this.trackHeight + 13);
    });
    for (const item of this.items) {
      if (item.to < this.from || item.from > this.to || this.hidden[item.s]) continue;
      const x = Math.max(this.x(item.from), this.left), end = Math.min(this.x(item.to), this.width - 8);
      const y = item.track * this.trackHeight + 18;
      const isFound = this.words && item.text.toLowerCase().includes(this.words);
      pen.globalAlpha = this.words && !isFound ? 0.15 : 1;
      pen.fillStyle = this.inks[item.s];
      pen.fillRect(x, y, Math.max(end - x - 0.5, 0.7), 22);
      if (item === this.at || (this.words && isFound && item === this.matches[this.current])) {
        pen.strokeStyle = variable("--text");
        pen.strokeRect(x, y, Math.max(end - x - 0.5, 1), 22);
      }
      pen.globalAlpha = 1;
      if (end - x > 60) this.inside(item.text, x + 4, y + 15, end - x - 8);
    }
  }
  inside(text, x, y, room) {
    const {pen} = this;
    const widthOf = (words) => pen.measureText(words).width;
    let length = Math.min(text.length, Math.ceil(text.length * room / widthOf(text)));
    const shown = () => length < text.length ? text.slice(0, length) + "\u2026" : text;
    while (length > 0 && widthOf(shown()) > room) --length;
    pen.fillStyle = variable("--text");
    pen.fillText(shown(), x, y);
  }

  drawSteps(height) {
    const {pen} = this, {y} = this.data, top = 22, bottom = height - 44;
    const up = (value) => bottom - (value - y.min) / (y.max - y.min) * (bottom - top);
    pen.fillStyle = variable("--quiet");
    pen.strokeStyle = variable("--line");
    pen.fillText(y.label, 0, 12);
    pen.textAlign = "right";
    for (const [value, text] of y.ticks) {
      pen.beginPath();
      pen.moveTo(this.left, up(value));
      pen.lineTo(this.width - 8, up(value));
      pen.stroke();
      pen.fillText(text, this.left - 8, up(value) + 4);
    }
    pen.textAlign = "left";
    for (const [value, text] of this.data.x.ticks) {
      if (value < this.from || value > this.to) continue;
      pen.beginPath();
      pen.moveTo(this.x(value), top);
      pen.lineTo(this.x(value), bottom + 6);
      pen.stroke();
      pen.fillText(text, Math.min(this.x(value) + 3, this.width - pen.measureText(text).width), bottom + 16);
    }
    pen.fillText(this.data.x.label, this.left, bottom + 36);
    this.data.series.forEach((series, s) => { if (!this.hidden[s]) this.drawLevels(series, s, up, bottom); });
    this.drawNames(up);
  }
  drawLevels(series, s, up, bottom) {
    const {pen} = this;
    pen.save();
    pen.beginPath();
    pen.rect(this.left, 0, this.width - this.left - 8, bottom);
    pen.clip();
    pen.beginPath();
    const items = this.items.filter((item) => item.s === s);
    items.forEach((item, i) => {
      if (i === 0) pen.moveTo(this.x(item.from), up(item.level));
      pen.lineTo(this.x(item.from), up(item.level));
      pen.lineTo(this.x(item.to), up(item.level));
    });
    if (series.area) {
      pen.lineTo(this.x(items.at(-1).to), bottom);
      pen.lineTo(this.x(items[0].from), bottom);
      pen.globalAlpha = series.band ? 0.7 : 0.3;
      pen.fillStyle = this.inks[s];
      pen.fill();
    } else {
      pen.strokeStyle = this.inks[s];
      pen.lineWidth = 2;
      pen.stroke();
    }
    pen.restore();
    for (const item of items)
      if (this.words && item.text.toLowerCase().includes(this.words) && item.from >= this.from && item.from <= this.to) {
        pen.fillStyle = this.inks[s];
        pen.beginPath();
        pen.arc(this.x(item.from), up(item.level), 4, 0, 7);
        pen.fill();
      }
  }
  // Names the tensors of large steps above the steps, where there is room.
  drawNames(up) {
    const {pen} = this, taken = [];
    const highest = (from, to) => this.items.reduce((most, item) =>
      !this.hidden[item.s] && item.to > from && item.from < to ? Math.max(most, item.level) : most, 0);
    for (const item of this.items) {
      if (!item.label || this.hidden[item.s] || item.from < this.from || item.from > this.to) continue;
      const width = pen.measureText(item.label).width;
      const x = Math.min(this.x(item.from) + 4, this.width - 8 - width);
      const y = up(highest(this.value(x), this.value(x + width))) - 8;
      if (taken.some((box) => x < box.x + box.width + 6 && box.x < x + width + 6 && Math.abs(y - box.y) < 14)) continue;
      taken.push({x, y, width});
      pen.fillStyle = variable("--text");
      pen.fillText(item.label, x, y);
    }
  }
}

for (const element of document.querySelectorAll(".timeline")) new Timeline(element);
