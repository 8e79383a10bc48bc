// Draws the charts of the report and makes its tables sort and filter. Everything it shows is already in the page
// as text, tables and pictures; numbers, ticks and labels come ready from the program that wrote the page.
(() => {
  "use strict";
  document.documentElement.classList.add("js");

  // ---- Charts ----
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const charts = new Map();  // canvas -> Chart
  const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const scale = (axis, extra = {}) => {
    const texts = new Map(axis.ticks);
    return {
      type: axis.log ? "logarithmic" : "linear",
      min: axis.min,
      max: axis.max,
      title: {display: true, text: axis.label, color: colour("--quiet")},
      grid: {color: colour("--line"), drawTicks: false},
      border: {display: false},
      afterBuildTicks: (it) => { it.ticks = axis.ticks.map(([value]) => ({value})); },
      ticks: {
        color: colour("--quiet"), autoSkip: true, maxRotation: 0, padding: 6,
        callback: (value) => texts.get(value) ?? "",
      },
      ...extra,
    };
  };

  const dataset = (series, kind, categories) => {
    const ink = series.colour[dark.matches ? 1 : 0];
    const shared = {label: series.name, borderColor: ink, backgroundColor: ink};
    if (kind !== "xy") {
      const values = new Array(categories).fill(null), texts = new Array(categories).fill("");
      for (const [at, value, text] of series.points) values[at] = value, texts[at] = text;
      return {...shared, data: values, texts, maxBarThickness: 26, categoryPercentage: 0.75, barPercentage: 0.9};
    }
    const mark = series.mark, stepped = mark === "steps" || mark === "area";
    if (stepped) {
      return {
        ...shared,
        data: series.points.map(([x, y, text]) => ({x, y, text})),
        showLine: true,
        stepped: "before",
        fill: mark === "area" ? "origin" : false,
        backgroundColor: mark === "area" ? `${ink}4d` : ink,
        borderWidth: mark === "area" ? 0 : 2,
        pointRadius: 0,
        pointHoverRadius: 4,
        pointBackgroundColor: ink,
      };
    }
    return {
      ...shared,
      data: series.points.map(([x, y, text]) => ({x, y, text})),
      showLine: mark === "line" || mark === "line_and_points",
      borderWidth: 2,
      borderDash: mark === "line" ? [6, 4] : [],
      pointRadius: mark === "line" ? 0 : mark === "crosses" ? 6 : 4,
      pointHoverRadius: mark === "line" ? 3 : 7,
      pointStyle: mark === "crosses" ? "crossRot" : "circle",
      pointBorderWidth: 2,
      pointBackgroundColor: mark === "rings" ? colour("--surface") : ink,
    };
  };

  // A thin line across bars (1x), and the value at the end of each.
  const barNotes = {
    id: "barNotes",
    afterDatasetsDraw(chart, _, {reference, labels}) {
      const {ctx, chartArea, scales} = chart;
      ctx.save();
      ctx.fillStyle = ctx.strokeStyle = colour("--quiet");
      if (reference !== undefined) {
        const x = scales.x.getPixelForValue(reference);
        ctx.setLineDash([4, 3]);
        ctx.beginPath();
        ctx.moveTo(x, chartArea.top);
        ctx.lineTo(x, chartArea.bottom);
        ctx.stroke();
      }
      if (labels) {
        ctx.font = "11px system-ui, sans-serif";
        ctx.textBaseline = "middle";
        chart.data.datasets.forEach((data, i) => {
          if (!chart.isDatasetVisible(i)) return;
          chart.getDatasetMeta(i).data.forEach((bar, j) => {
            if (data.data[j] !== null) ctx.fillText(data.texts[j], bar.x + 5, bar.y);
          });
        });
      }
      ctx.restore();
    },
  };

  // Lines of words, none longer than so many characters where that can be.
  const wrapped = (text, width) => {
    const lines = [""];
    for (const word of text.split(" ")) {
      const last = lines.length - 1;
      if (lines[last] && lines[last].length + word.length >= width) lines.push(word);
      else lines[last] += (lines[last] && " ") + word;
    }
    return lines;
  };

  const configuration = (spec) => {
    const bars = spec.kind !== "xy", stacked = spec.kind === "stacked_bars";
    const stepped = spec.series.some(({mark}) => mark === "steps" || mark === "area");
    return {
      type: bars ? "bar" : "scatter",
      data: {
        labels: bars ? spec.categories : undefined,
        datasets: spec.series.map((series) => dataset(series, spec.kind, spec.categories.length)),
      },
      plugins: bars ? [barNotes] : [],
      options: {
        indexAxis: bars ? "y" : "x",
        animation: false,
        maintainAspectRatio: false,
        interaction: {mode: "nearest", intersect: false, axis: bars ? "y" : stepped ? "x" : "xy"},
        layout: {padding: {right: bars && !stacked ? 58 : 12}},
        scales: bars ? {
          x: scale(spec.y, {stacked}),
          y: {stacked, grid: {display: false}, ticks: {color: colour("--text"), autoSkip: false}},
        } : {x: scale(spec.x), y: scale(spec.y)},
        plugins: {
          barNotes: {reference: spec.reference, labels: !stacked},
          legend: {
            position: "top", align: "start",
            labels: {color: colour("--text"), usePointStyle: true, boxWidth: 8, boxHeight: 8, padding: 12},
          },
          tooltip: {
            callbacks: {
              title: (items) => items.length && bars ? items[0].label : "",
              label: ({chart, dataset: data, dataIndex, raw}) =>
                wrapped(`${data.label}: ${bars ? data.texts[dataIndex] : raw.text}`, chart.width / 8),
            },
          },
        },
      },
    };
  };

  const draw = (figure) => {
    const canvas = figure.querySelector("canvas");
    const spec = JSON.parse(figure.querySelector("script").textContent);
    if (spec.kind !== "xy") {
      const perCategory = spec.kind === "bars" ? 22 * spec.series.length + 14 : 44;
      canvas.parentElement.style.height = `${Math.max(190, 110 + perCategory * spec.categories.length)}px`;
    }
    charts.get(canvas)?.destroy();
    charts.set(canvas, new Chart(canvas, configuration(spec)));
  };
  const drawShown = (root) => {
    for (const figure of root.querySelectorAll("figure.chart"))
      if (!figure.closest("[hidden]")) draw(figure);
  };

  Chart.defaults.font.family = "system-ui, 'Segoe UI', Roboto, Helvetica, Arial, sans-serif";
  drawShown(document);
  dark.addEventListener("change", () => drawShown(document));
  for (const select of document.querySelectorAll("select[data-views]")) {
    select.addEventListener("change", () => {
      const section = select.closest("section");
      for (const view of section.querySelectorAll(".charts")) view.hidden = view.dataset.view !== select.value;
      drawShown(section);
    });
  }

  // ---- Tables ----
  const collator = new Intl.Collator("en", {numeric: true});
  const plain = (text) => text.toLowerCase().replace(/[^a-z0-9]/g, "");

  // "flash -causal seq_len>1000 status=OOM" -> a test of a row.
  const conditions = (text, columns) => text.trim().split(/\s+/).filter(Boolean).map((word) => {
    const parts = /^(-?)([^<>=]+)(>=|<=|>|<|=)(.+)$/.exec(word);
    const column = parts ? columns.indexOf(plain(parts[2])) : -1;
    if (column < 0) {
      const not = word.startsWith("-") && word.length > 1;
      const wanted = (not ? word.slice(1) : word).toLowerCase();
      return (row) => row.text.includes(wanted) !== not;
    }
    const [, not, , operator, value] = parts;
    const number = Number(value);
    return (row) => {
      const {key, text: cell} = row.cells[column];
      const order = key !== null && !Number.isNaN(number) ? key - number : collator.compare(cell, value.toLowerCase());
      if (cell === "") return false;
      const holds = {">": order > 0, "<": order < 0, ">=": order >= 0, "<=": order <= 0, "=": order === 0}[operator];
      return holds !== Boolean(not);
    };
  });

  const enliven = (block) => {
    const table = block.querySelector("table"), body = table.tBodies[0];
    const heads = [...table.tHead.rows[0].cells].filter((head) => head.querySelector("button"));
    const columns = heads.map((head) => plain(head.textContent));
    const input = block.querySelector("input"), count = block.querySelector(".count");
    const all = block.querySelector("button.all");
    const rows = [...body.rows].map((element) => ({
      element,
      text: element.textContent.toLowerCase(),
      cells: heads.map((_, i) => {
        const cell = element.cells[i];
        return {key: cell.dataset.key === undefined ? null : Number(cell.dataset.key), text: cell.textContent.toLowerCase()};
      }),
    }));
    const status = columns.indexOf("status");
    if (status >= 0)
      for (const {element, cells} of rows)
        element.cells[status].classList.add(cells[status].text === "success" ? "good" : "bad");

    // Only the first rows are put into the page until all are asked for: laying out thousands takes seconds.
    let order = rows, most = 200;
    const show = () => {
      const tests = conditions(input.value, columns);
      const kept = tests.length ? order.filter((row) => tests.every((test) => test(row))) : order;
      body.replaceChildren(...kept.slice(0, most).map((row) => row.element));
      const long = kept.length > most;
      count.textContent = `${long ? `${most} of ` : ""}${kept.length} rows` +
        (kept.length === rows.length ? "" : ` (of ${rows.length})`);
      all.hidden = !long;
    };
    // Numbers are sorted as they are, texts by their place among the distinct ones; empty cells come last.
    const sortKeys = (column) => {
      const texts = [...new Set(rows.map((row) => row.cells[column].text))].sort(collator.compare);
      const places = new Map(texts.map((text, place) => [text, place]));
      const numbers = rows.some((row) => row.cells[column].key !== null);
      return new Map(rows.map((row) => {
        const {key, text} = row.cells[column];
        return [row, text === "" ? null : numbers ? key ?? Infinity : places.get(text)];
      }));
    };
    const sort = (column, descending) => {
      const direction = descending ? -1 : 1;
      const keys = sortKeys(column);
      order = [...rows].sort((a, b) => {
        const x = keys.get(a), y = keys.get(b);
        if (x === null || y === null) return (x === null) - (y === null);
        return x === y ? 0 : direction * (x < y ? -1 : 1);
      });
      show();
    };
    heads.forEach((head, column) => head.querySelector("button").addEventListener("click", () => {
      const descending = head.getAttribute("aria-sort") === "ascending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", descending ? "descending" : "ascending");
      sort(column, descending);
    }));
    input.addEventListener("input", show);
    all.addEventListener("click", () => { most = Infinity; show(); });
    show();
  };
  for (const block of document.querySelectorAll(".rows")) enliven(block);
})();
