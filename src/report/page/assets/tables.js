// Tables that sort, filter, and lay out only the rows that they show.

const collator = new Intl.Collator("en", {numeric: true});
const plain = (text) => text.toLowerCase().replace(/[^a-z0-9]/g, "");
const element = (tag, text, properties = {}) => Object.assign(document.createElement(tag), {textContent: text}, properties);

// Lets long names of kernels and scopes break after their parts, as in the rows that the page comes with.
const breakable = (text) => text.length < 20 ? [text] :
  text.split(/(?<=[_.])/).flatMap((part, i) => i ? [document.createElement("wbr"), part] : [part]);

// Turns a filter such as "flash -causal seq_len>1000 status=OOM" into predicates on a row.
const conditions = (text, columns) => text.trim().split(/\s+/).filter(Boolean).map((word) => {
  const parts = /^(-?)([^<>=]+)(>=|<=|>|<|=)(.+)$/.exec(word);
  const column = parts ? columns.indexOf(plain(parts[2])) : -1;
  if (column < 0) {
    const not = word.startsWith("-") && word.length > 1;
    const wanted = (not ? word.slice(1) : word).toLowerCase();
    return (row) => row.all.includes(wanted) !== not;
  }
  const [, not, , operator, value] = parts;
  const number = Number(value);
  return (row) => {
    const key = row.numbers[column], cell = row.texts[column].toLowerCase();
    const order = key !== null && !Number.isNaN(number) ? key - number : collator.compare(cell, value.toLowerCase());
    if (cell === "") return false;
    const holds = {">": order > 0, "<": order < 0, ">=": order >= 0, "<=": order <= 0, "=": order === 0}[operator];
    return holds !== Boolean(not);
  };
});

class RowTable {
  constructor(block) {
    const table = block.querySelector("table");
    this.body = table.tBodies[0];
    this.heads = [...table.tHead.rows[0].cells].filter((head) => head.querySelector("button"));
    this.names = this.heads.map((head) => head.textContent);
    this.columns = this.names.map(plain);
    this.input = block.querySelector("input");
    this.count = block.querySelector(".count");
    this.button = block.querySelector("button.all");
    this.rows = this.read(block.querySelector("script"));
    this.order = this.rows;
    this.most = 100;
    this.only = null;  // the implementation highlighted in a chart
    this.heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => this.sortBy(column)));
    this.input.addEventListener("input", () => this.show());
    this.button.addEventListener("click", () => { this.most = Infinity; this.show(); });
    this.show();
  }

  // Reads rows from JSON if there are many, else from the page.
  read(script) {
    const rows = script
      ? JSON.parse(script.textContent).map(([texts, numbers, details]) => ({texts, numbers, details, cells: null}))
      : [...this.body.rows].map((cells) => ({
        texts: this.heads.map((_, i) => cells.cells[i].textContent),
        numbers: this.heads.map((_, i) => cells.cells[i].dataset.key === undefined ? null : Number(cells.cells[i].dataset.key)),
        details: [["", cells.textContent]],
        cells,
      }));
    for (const row of rows) row.all = [...row.texts, ...row.details.map(([, text]) => text)].join(" ").toLowerCase();
    return rows;
  }

  elementOf(row) {
    row.cells ??= this.make(row);
    if (row.isReady) return row.cells;
    row.isReady = true;
    [...row.cells.cells].forEach((cell, i) => { cell.dataset.label = this.names[i] ?? "details"; });
    const status = this.columns.indexOf("status");
    if (status >= 0) row.cells.cells[status].classList.add(row.texts[status] === "success" ? "good" : "bad");
    return row.cells;
  }
  make({texts, numbers, details}) {
    const cells = document.createElement("tr");
    texts.forEach((text, i) => {
      const cell = element("td", "", {className: numbers[i] === null ? "" : "number"});
      cell.append(...breakable(text));
      cells.append(cell);
    });
    if (!details.length) return cells;
    const fold = document.createElement("details"), list = document.createElement("dl");
    for (const [label, text] of details) {
      const value = document.createElement("dd");
      value.append(element(label === "command" ? "code" : "span", text));
      list.append(element("dt", label), value);
    }
    fold.append(element("summary", "command"), list);
    const last = document.createElement("td");
    last.append(fold);
    cells.append(last);
    return cells;
  }

  show() {
    const tests = conditions(this.input.value, this.columns);
    const column = this.columns.indexOf("implementation");
    if (this.only !== null && column >= 0) tests.push((row) => row.texts[column] === this.only);
    const kept = tests.length ? this.order.filter((row) => tests.every((test) => test(row))) : this.order;
    this.body.replaceChildren(...kept.slice(0, this.most).map((row) => this.elementOf(row)));
    const long = kept.length > this.most;
    this.count.textContent = `${long ? `${this.most} of ` : ""}${kept.length} rows` +
      (kept.length === this.rows.length ? "" : ` (of ${this.rows.length})`);
    this.button.hidden = !long;
  }

  // Numbers sort by value, texts by their rank among the distinct ones; empty cells come last.
  sortKeys(column) {
    const texts = [...new Set(this.rows.map((row) => row.texts[column]))].sort(collator.compare);
    const places = new Map(texts.map((text, place) => [text, place]));
    const hasNumbers = this.rows.some((row) => row.numbers[column] !== null);
    return new Map(this.rows.map((row) => {
      const text = row.texts[column];
      return [row, text === "" ? null : hasNumbers ? row.numbers[column] ?? Infinity : places.get(text)];
    }));
  }
  sortBy(column) {
    const head = this.heads[column];
    const descending = head.getAttribute("aria-sort") === "ascending";
    for (const other of this.heads) other.removeAttribute("aria-sort");
    head.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const direction = descending ? -1 : 1, keys = this.sortKeys(column);
    this.order = [...this.rows].sort((a, b) => {
      const x = keys.get(a), y = keys.get(b);
      if (x === null || y === null) return (x === null) - (y === null);
      return x === y ? 0 : direction * (x < y ? -1 : 1);
    });
    this.show();
  }
}

// A table is set up when it is first opened, as most stay folded.
const tables = [];
const setUp = (block) => {
  if (block.table) return;
  block.table = new RowTable(block);
  tables.push(block.table);
  if (highlighted !== null) { block.table.only = highlighted; block.table.show(); }
};
let highlighted = null;
for (const block of document.querySelectorAll(".rows")) {
  const fold = block.closest("details");
  if (!fold || fold.open) setUp(block);
  else fold.addEventListener("toggle", () => setUp(block), {once: true});
}
