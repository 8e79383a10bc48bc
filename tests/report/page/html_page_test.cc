// The HTML report in a real browser: it draws, sorts and filters, makes no requests, and runs no
// text of a record as a script.
#include "report/page/html_page.h"

#include <gtest/gtest.h>

#include <random>

#include "base/file_io.h"
#include "measure/record_json.h"
#include "measure/test_support.h"
#include "report/page/html_chromium.h"
#include "report/page/html_escape.h"
#include "studies/studies.h"

namespace ridgeline {
namespace {

// A small study with all that the report draws: two implementations, a size that does not fit,
// costs and memory.
std::vector<Record> small_study() {
  std::vector<Record> records;
  for (const char* implementation : {"naive", "flash"})
    for (const int d_model : {16, 64})
      for (const int seq_len : {256, 1024, 4096}) {
        const bool naive = implementation == std::string("naive");
        const double ms = seq_len * seq_len / 1e6 * d_model / 16 * (naive ? 2 : 1);
        Record record =
            attention_record({.implementation = implementation,
                              .seq_len = seq_len,
                              .d_model = d_model,
                              .forward_ms = ms,
                              .backward_ms = 2 * ms,
                              .status = naive && seq_len == 4096 ? Status::oom : Status::ok});
        record.machine.cpu_model = "A processor";
        record.settings = {{"threads", 2}, {"isa", "avx2"}};
        record.memory.peak = Bytes{int64_t{seq_len} * 1000 * (naive ? seq_len : 1)};
        record.memory.predicted_peak = record.memory.peak;
        record.cost =
            CostFacts{{4000000, 2000000, Bytes{100000}}, {10000000, 5000000, Bytes{200000}}, "c"};
        record.command = "ridgeline attention --impl " + record.implementation;
        records.push_back(std::move(record));
      }
  return records;
}

ReportInput input_of(std::vector<Record> records) {
  return {.records = std::move(records),
          .made_by = "a test",
          .sections = report_sections(),
          .unchecked = unchecked_studies()};
}

std::filesystem::path write_page(const TempDir& directory, const ReportInput& input) {
  const std::filesystem::path path = directory / "report.html";
  write_file_atomically(path, to_html(make_report(input)));
  return path;
}

using Texts = std::vector<std::string>;

// Scrolls to the first visible element of the selector; returns its centre as {x, y}.
nlohmann::json place_of_element(Chromium& browser, const std::string& selector) {
  return browser.evaluate("(() => { const it = [...document.querySelectorAll(" +
                          Json(selector).dump() +
                          R"()].find((each) => each.getClientRects().length);
    it.scrollIntoView({block: "center", behavior: "instant"});
    const box = it.getBoundingClientRect();
    return {x: (box.left + box.right) / 2, y: (box.top + box.bottom) / 2}; })())");
}
void hover(Chromium& browser, const std::string& selector) {
  const auto at = place_of_element(browser, selector);
  browser.hover(at.at("x"), at.at("y"));
}
void click(Chromium& browser, const std::string& selector) {
  const auto at = place_of_element(browser, selector);
  browser.click(at.at("x"), at.at("y"));
}
size_t count(Chromium& browser, const std::string& selector) {
  return browser.evaluate("document.querySelectorAll(" + Json(selector).dump() + ").length");
}
// Returns the tooltip after the next frame, when the page has handled the pointer.
std::string tip(Chromium& browser) {
  return browser.evaluate(
      "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => "
      "done(tip.hidden ? '' : tip.textContent))))");
}
void open_folds(Chromium& browser) {
  browser.evaluate(
      "new Promise((done) => { for (const it of document.querySelectorAll('details')) it.open = "
      "true; setTimeout(done, 50); })");
}

// The number of points in each visible picture, by chart; of wide and narrow only one is visible.
constexpr const char* kShownPictures =
    R"js((() => [...document.querySelectorAll(".plot:not(.still)")]
  .filter((plot) => !plot.closest("[hidden]") && plot.checkVisibility())
  .map((plot) => [...plot.querySelectorAll("svg")].filter((svg) => svg.getClientRects().length)
    .map((svg) => svg.querySelectorAll(".p").length)))())js";

// Numbers in tables that are broken over several lines.
constexpr const char* kBrokenNumbers =
    R"js((() => [...document.querySelectorAll("table.sortable td.number")]
  .filter((cell) => cell.firstChild && getComputedStyle(cell).display === "table-cell")
  .filter((cell) => {
    const range = document.createRange();
    range.selectNodeContents(cell);
    return new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1;
  }).map((cell) => cell.textContent))())js";

// Texts that extend beyond their picture.
constexpr const char* kCutTexts =
    R"js((() => [...document.querySelectorAll(".plot svg")].filter((svg) => svg.getClientRects().length)
  .flatMap((svg) => [...svg.querySelectorAll("text")].filter((text) => {
    const box = text.getBBox(), frame = svg.viewBox.baseVal;
    return box.width > 0 && (box.x < -2 || box.x + box.width > frame.width + 2 || box.y + box.height > frame.height + 2);
  }).map((text) => text.textContent)))())js";

TEST(SlowReportInChromium, FitsEveryWindowWithoutMessagesOrRequests) {
  NEEDS_CHROMIUM();
  const TempDir directory;
  Chromium browser(directory / "profile");
  for (const bool dark : {false, true})
    for (const int width : {1280, 768, 390}) {
      browser.set_dark(dark);
      browser.set_width(width);
      browser.open_page(write_page(directory, input_of(small_study())));
      open_folds(browser);
      const auto pictures = browser.evaluate(kShownPictures);
      // 2 of times, 2 of speedups, 3 of memory, 1 roofline, 1 of disturbed rows
      EXPECT_EQ(pictures.size(), 9u) << pictures;
      for (const auto& plot : pictures) {
        ASSERT_EQ(plot.size(), 1u) << pictures << " at " << width;
        EXPECT_GT(plot.at(0).get<int>(), 0) << pictures;
      }
      EXPECT_EQ(browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), true)
          << "the page is wider than a window of " << width;
      EXPECT_EQ(
          browser.evaluate(
              "[...document.querySelectorAll('.rows .scroll')].filter((it) => "
              "it.scrollWidth > it.clientWidth + 1).map((it) => it.getAttribute('aria-label'))"),
          nlohmann::json::array())
          << "tables do not fit " << width;
      EXPECT_EQ(browser.evaluate(kBrokenNumbers), nlohmann::json::array())
          << "numbers on two lines at " << width;
      EXPECT_EQ(browser.evaluate(kCutTexts), nlohmann::json::array())
          << "words of a picture are cut at " << width;
    }
  EXPECT_EQ(browser.errors, Texts{});
  EXPECT_EQ(browser.requests, Texts{});
}

// Rows have samples, so that every point of a chart of times has an interval.
TEST(SlowReportInChromium, EveryPointOfATimeHasItsInterval) {
  NEEDS_CHROMIUM();
  const TempDir directory;
  Chromium browser(directory / "profile");
  browser.open_page(write_page(directory, input_of(small_study())));
  for (const char* chart : {"latency-forward", "latency-backward", "speedup-forward", "roofline"}) {
    const std::string series = std::string("[data-chart=") + chart + "] svg.wide g.series ";
    const size_t points = count(browser, series + ".p"), whiskers = count(browser, series + ".w");
    EXPECT_GT(points, 1u) << chart;
    EXPECT_EQ(points, whiskers) << chart;
  }
}

TEST(SlowReportInChromium, AnswersThePointerTheKeysAndTheSwitches) {
  NEEDS_CHROMIUM();
  const TempDir directory;
  Chromium browser(directory / "profile");
  browser.set_width(1280);
  browser.open_page(write_page(directory, input_of(small_study())));
  const std::string forward = "#attention [data-view='0'] [data-chart=latency-forward] ";
  hover(browser, forward + "svg.wide g[data-name=flash] .p");
  EXPECT_EQ(tip(browser).find("flash: S 256, "), 0u) << tip(browser);
  EXPECT_HAS(tip(browser), "within-run");
  browser.hover(1, 1);
  EXPECT_EQ(tip(browser), "");

  browser.evaluate("document.querySelector(" + Json(forward + ".plot").dump() + ").focus()");
  browser.press("ArrowRight");
  const std::string first = tip(browser);
  browser.press("ArrowRight");
  EXPECT_NE(tip(browser), first);
  EXPECT_EQ(browser.evaluate("spoken.textContent"), tip(browser)) << "read out, too";

  const auto shown = [&](const std::string& name) {
    return browser.evaluate("document.querySelector(" +
                            Json(forward + "svg.wide g[data-name=" + name + "]").dump() +
                            ").getClientRects().length > 0");
  };
  click(browser, forward + ".key[data-name=naive]");
  EXPECT_EQ(shown("naive"), false);
  EXPECT_EQ(shown("flash"), true);
  click(browser, forward + ".key[data-name=naive]");
  EXPECT_EQ(shown("naive"), true);

  browser.evaluate(R"((() => { const select = document.querySelector("#attention select");
      select.value = "1"; select.dispatchEvent(new Event("change")); })())");
  EXPECT_EQ(
      browser.evaluate("document.querySelector('#attention [data-view=\"1\"]').checkVisibility()"),
      true);
  EXPECT_EQ(browser.errors, Texts{});
}

TEST(SlowReportInChromium, APointOfTheRooflineFiltersThePage) {
  NEEDS_CHROMIUM();
  const TempDir directory;
  Chromium browser(directory / "profile");
  browser.set_width(1280);
  browser.open_page(write_page(directory, input_of(small_study())));
  open_folds(browser);
  const auto rows_of = [&](const char* name) {
    return browser.evaluate(
        std::string("[...document.querySelectorAll('#rows tbody tr')].filter((row) "
                    "=> row.cells[0].textContent === '") +
        name + "').length");
  };
  EXPECT_GT(rows_of("naive"), 0);
  // No other mark is nearer to this position.
  click(browser, "#roofline [data-view='0'] svg.wide g[data-implementation=flash] .p");
  EXPECT_EQ(browser.evaluate("filtered.hidden"), false);
  EXPECT_EQ(browser.evaluate("filtered.querySelector('b').textContent"), "flash");
  EXPECT_EQ(rows_of("naive"), 0) << "the tables keep flash";
  EXPECT_GT(rows_of("flash"), 0);
  EXPECT_EQ(browser.evaluate("[...document.querySelectorAll('g.series.dim')].every((it) => "
                             "it.dataset.implementation === 'naive')"),
            true);
  EXPECT_GT(count(browser, "#attention g.series.dim"), 0u);
  browser.press("Escape");
  EXPECT_EQ(browser.evaluate("filtered.hidden"), true);
  EXPECT_GT(rows_of("naive"), 0);
  EXPECT_EQ(count(browser, "g.series.dim"), 0u);
  EXPECT_EQ(browser.errors, Texts{});
}

// Labels do not overlap points, and kinds of work can be hidden.
TEST(SlowReportInChromium, NamesOfTheRooflineHideNoPointAndWorkHasSwitches) {
  NEEDS_CHROMIUM();
  std::vector<Record> records = small_study();
  for (Record& record : records) {
    record.machine.max_clock_mhz = 2000;
    const auto seq_len = record.workload["seq_len"].get<int64_t>();
    for (PhaseCost* cost : {&record.cost->forward, &record.cost->backward})
      cost->flops *= seq_len, cost->macs *= seq_len, cost->bytes = Bytes{cost->bytes.count * 900};
    if (record.implementation == "flash") continue;
    Record product = record;
    product.study = "gemm";
    records.push_back(std::move(product));
    break;
  }
  Record profiled = attention_record({.implementation = "compiled"});
  profiled.study = "profile";
  profiled.machine.cpu_model = "A processor";
  profiled.series.clear();
  profiled.metrics = Json{{"folds",
                           {{"kernel",
                             {{{"key", "softmax"},
                               {"phase", "forward"},
                               {"mean_us", 5},
                               {"flops_per_s", 1e9},
                               {"bytes_per_s", 1e9}}}}}}};
  records.push_back(std::move(profiled));
  const TempDir directory;
  Chromium browser(directory / "profile");
  browser.set_width(1280);
  browser.open_page(write_page(directory, input_of(records)));
  const std::string picture = "#roofline [data-view='0'] svg.wide ";
  EXPECT_GE(count(browser, picture + "text.name"), 3u);
  EXPECT_EQ(browser.evaluate(R"js((() => {
    const svg = document.querySelector("#roofline [data-view='0'] svg.wide");
    const marks = [...svg.querySelectorAll("g:not(.off) > .p")].map((mark) => mark.getBBox());
    return [...svg.querySelectorAll("text.name")].filter((name) => {
      const a = name.getBBox();
      return marks.some((b) => a.x < b.x + b.width && b.x < a.x + a.width && a.y + 2 < b.y + b.height && b.y < a.y + a.height - 2);
    }).map((name) => name.textContent); })())js"),
            nlohmann::json::array());
  const auto shown = [&](const std::string& selector) {
    return browser.evaluate("[...document.querySelectorAll(" + Json(picture + selector).dump() +
                            ")].filter((it) => it.getClientRects().length).length > 0");
  };
  EXPECT_EQ(count(browser, picture + "g[data-name='kernels of compiled']"), 0u);
  EXPECT_EQ(
      count(browser, "#roofline [data-view='1'] svg.wide g[data-name='kernels of compiled'] .p"),
      1u)
      << "kernels have a view of their own";
  EXPECT_EQ(shown("g[data-work=attention] .p"), true);
  const std::string attention = "#roofline [data-view='0'] .key[data-work=attention]";
  click(browser, attention);
  EXPECT_EQ(shown("g[data-work=attention] .p"), true) << "a click shows its work alone";
  EXPECT_EQ(shown("g[data-work='matrix products'] .p"), false);
  click(browser, attention);
  EXPECT_EQ(shown("g[data-work='matrix products'] .p"), true) << "the next one shows all again";
  EXPECT_EQ(browser.errors, Texts{});
}

// Long names of rows and axes are wrapped, not cut.
TEST(SlowReportInChromium, AComparisonNamesItsRowsToTheEnd) {
  NEEDS_CHROMIUM();
  std::vector<Record> base = small_study(), next = small_study();
  for (std::vector<Record>* side : {&base, &next})
    for (Record& record : *side)
      record.implementation += " with a name that is as long as those of peers are";
  next[0].series = {series_of("forward", std::vector<double>(9, 40)),
                    series_of("backward", std::vector<double>(9, 60))};
  ReportInput input = input_of(next);
  input.sides = {
      {.name = "b against a", .comparison = compare_records(base, next, {}), .base = base}};
  const TempDir directory;
  Chromium browser(directory / "profile");
  for (const int width : {1280, 768, 390}) {
    browser.set_width(width);
    browser.open_page(write_page(directory, input));
    EXPECT_EQ(browser.evaluate(kCutTexts), nlohmann::json::array()) << width;
    const std::string words = browser.evaluate(
        "[...[...document.querySelectorAll('#verdicts [data-chart=changes] svg')].find((it) => "
        "it.getClientRects().length).querySelectorAll('text')].map((it) => it.textContent).join(' "
        "')");
    EXPECT_HAS(words, "backward");
    EXPECT_LACKS(words, "...");
    EXPECT_HAS(words, "(higher is better)");
  }
}

// A profile with two streams of a GPU.
Record profiled_step() {
  Record record = attention_record({.implementation = "compiled"});
  record.study = "profile";
  record.workload = {{"of", "model"}, {"model_size", "small"}, {"scenario", "full-step"}};
  record.series.clear();
  Json work = Json::array();
  for (int i = 0; i < 200; ++i) work.push_back({i % 2, 10.0 * i, 8.0, i == 150 ? 1 : 0, 2, 3, 4});
  record.metrics =
      Json{{"step",
            {{"tracks", {"stream 7", "stream 13"}},
             {"words", {"gemm_kernel", "softmax_kernel", "layers.0", "forward", "gemm"}},
             {"work", work},
             {"left_out", 0}}}};
  return record;
}

TEST(SlowReportInChromium, TimelinesZoomMoveAndFind) {
  NEEDS_CHROMIUM();
  const TempDir directory;
  Chromium browser(directory / "profile");
  browser.set_width(1280);
  browser.open_page(write_page(directory, input_of({profiled_step()})));
  const auto picture = [&] {
    return browser.evaluate("document.querySelector('#step canvas').toDataURL()")
        .get<std::string>();
  };
  const std::string whole = picture();
  EXPECT_EQ(count(browser, "#step .key"), 0u) << "one kind of work needs no legend";
  click(browser, "#step [data-do=in]");
  const std::string zoomed = picture();
  EXPECT_NE(zoomed, whole);
  browser.evaluate("document.querySelector('#step canvas').focus()");
  browser.press("ArrowRight");
  EXPECT_NE(picture(), zoomed);
  click(browser, "#step [data-do=all]");
  browser.hover(1, 1);
  EXPECT_EQ(picture(), whole);
  browser.evaluate(R"((() => { const input = document.querySelector("#step input");
      input.value = "SOFTMAX"; input.dispatchEvent(new Event("input")); })())");
  EXPECT_EQ(browser.evaluate("document.querySelector('#step .found').textContent"), "1 of 200");
  browser.evaluate("document.querySelector('#step input').focus()");
  browser.press("Enter");
  EXPECT_NE(picture(), whole) << "the one that was found comes into sight";
  EXPECT_HAS(browser.evaluate("spoken.textContent").get<std::string>(), "softmax_kernel");
  EXPECT_EQ(browser.errors, Texts{});
}

// Names in a timeline are drawn whole, or end in an ellipsis within their piece of work.
TEST(SlowReportInChromium, TimelinesCutNoNameInTheMiddleOfALetter) {
  NEEDS_CHROMIUM();
  const TempDir directory;
  Chromium browser(directory / "profile");
  browser.set_width(1280);
  browser.open_page(write_page(directory, input_of({profiled_step()})));
  browser.evaluate(R"((() => {
    const pen = CanvasRenderingContext2D.prototype, {clip, fillText} = pen;
    window.clipped = 0, window.names = [];
    pen.clip = function (...path) { ++clipped; clip.apply(this, path); };
    pen.fillText = function (text, ...place) {
      if (text.startsWith("gem")) names.push([text, this.measureText(text).width]);
      fillText.call(this, text, ...place);
    };
  })())");
  for (int i = 0; i < 4; ++i) click(browser, "#step [data-do=in]");
  EXPECT_EQ(browser.evaluate("clipped"), 0);
  EXPECT_GT(browser.evaluate("names.length").get<int>(), 0);
  EXPECT_EQ(browser.evaluate("names.filter(([text]) => !text.endsWith('\\u2026')).length"), 0)
      << "pieces are narrower than the name";
  EXPECT_GT(browser.evaluate("Math.min(...names.map(([, width]) => width))").get<double>(), 20);
  EXPECT_EQ(browser.errors, Texts{});
}

// The accessibility checker finds nothing in either colour scheme, folded or unfolded.
TEST(SlowReportInChromium, AxeCoreFindsNothing) {
  NEEDS_CHROMIUM();
  const char* axe = std::getenv("RIDGELINE_AXE_CORE");
  if (axe == nullptr)
    GTEST_SKIP() << "RIDGELINE_AXE_CORE names no axe.min.js: pip download --no-deps "
                    "axe-playwright-python has one";
  std::vector<Record> records = small_study();
  records.push_back(profiled_step());
  const TempDir directory;
  Chromium browser(directory / "profile");
  for (const bool dark : {false, true}) {
    browser.set_dark(dark);
    browser.open_page(write_page(directory, input_of(records)));
    browser.evaluate(read_text(axe) + "; 0");
    for (const bool unfolded : {false, true}) {
      if (unfolded) open_folds(browser);
      EXPECT_EQ(
          browser.evaluate("axe.run().then((it) => it.violations.map((each) => each.id + ': ' + "
                           "each.nodes.map((node) => node.html).join()))"),
          nlohmann::json::array())
          << (dark ? "dark" : "light");
    }
  }
}

// The answers come first, each with a link to its section, and the rest is folded.
TEST(SlowReportInChromium, LeadsWithAnswersAndFoldsTheRest) {
  NEEDS_CHROMIUM();
  const TempDir directory;
  Chromium browser(directory / "profile");
  browser.set_width(1280);
  browser.open_page(write_page(directory, input_of(small_study())));
  EXPECT_EQ(browser.evaluate("document.querySelector('main > section').id"), "answers");
  EXPECT_EQ(count(browser, ".answers a"), 4u);  // roofline, time, memory, trust
  EXPECT_EQ(browser.evaluate("[...document.querySelectorAll('.answers a')].every((it) => "
                             "document.getElementById(it.hash.slice(1)))"),
            true);
  EXPECT_EQ(browser.evaluate("[...document.querySelectorAll('.answers li')].every((it) => "
                             "it.querySelector('.level'))"),
            true);
  EXPECT_EQ(count(browser, "#answers > details .answers"), 0u) << "few answers are not folded";
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('main > section')[1].id"), "roofline");
  EXPECT_EQ(browser.evaluate("[...document.querySelectorAll('.rows')].filter((it) => "
                             "it.checkVisibility()).length"),
            0);
  EXPECT_LT(browser.evaluate("document.body.innerText.split(/\\s+/).length"), 1500);
  // The navigation stays visible and marks the current section.
  browser.evaluate("document.getElementById('memory').scrollIntoView({behavior: 'instant'})");
  EXPECT_EQ(browser.evaluate("new Promise((done) => setTimeout(() => "
                             "done(document.querySelector('nav [aria-current]').hash), 100))"),
            "#memory");
  EXPECT_EQ(browser.evaluate("document.querySelector('nav').getBoundingClientRect().top >= 0"),
            true);
}

// An expression for the visible texts of a column of the table of all rows.
std::string column(int index) {
  return "[...document.querySelectorAll('#rows tbody tr')].filter((row) => "
         "row.checkVisibility()).map((row) => "
         "row.cells[" +
         std::to_string(index) + "].textContent)";
}

TEST(SlowReportInChromium, SortsAndFilters) {
  NEEDS_CHROMIUM();
  const TempDir directory;
  Chromium browser(directory / "profile");
  browser.open_page(write_page(directory, input_of(small_study())));
  open_folds(browser);
  const auto texts = [&](int index) { return browser.evaluate(column(index)).get<Texts>(); };
  constexpr int kImplementation = 0, kSeqLen = 1, kMedian = 4, kStatus = 8;
  const auto click = [&](int index) {
    browser.evaluate("document.querySelectorAll('#rows thead button')[" + std::to_string(index) +
                     "].click()");
  };
  const auto sorted_by = [&] {
    return browser
        .evaluate(
            "[...document.querySelectorAll('#rows th[aria-sort]')].map((th) => "
            "th.cellIndex + th.getAttribute('aria-sort'))")
        .get<Texts>();
  };
  const auto numbers = [&] {
    std::vector<double> out;
    for (const std::string& text : texts(kMedian))
      out.push_back(text.empty() ? -1 : std::stod(text));
    return out;
  };
  EXPECT_EQ(texts(kImplementation).size(), 22u);  // 10 ok records with two phases, 2 without
  click(kMedian);
  EXPECT_EQ(sorted_by(), Texts{"4ascending"});
  std::vector<double> up = numbers();
  EXPECT_EQ(std::vector(up.end() - 2, up.end()), (std::vector<double>{-1, -1}))
      << "empty cells come last";
  EXPECT_TRUE(std::is_sorted(up.begin(), up.end() - 2));
  click(kMedian);
  EXPECT_EQ(sorted_by(), Texts{"4descending"});
  std::vector<double> down = numbers();
  EXPECT_TRUE(std::is_sorted(down.rbegin() + 2, down.rend()));
  EXPECT_EQ(std::vector(down.end() - 2, down.end()), (std::vector<double>{-1, -1}));

  const auto filter = [&](const std::string& text) {
    browser.evaluate(
        "(() => { const input = document.querySelector('#rows input'); input.value = '" + text +
        "'; input.dispatchEvent(new Event('input')); })()");
  };
  filter("flash");
  EXPECT_EQ(texts(kImplementation), Texts(12, "flash"));
  filter("-flash seq_len>=1024");
  EXPECT_EQ(texts(kImplementation), Texts(6, "naive"));
  filter("status=OOM");
  EXPECT_EQ(texts(kStatus), Texts(2, "OOM"));
  filter("seq_len=256 naive");
  EXPECT_EQ(texts(kSeqLen), Texts(4, "256"));
  EXPECT_EQ(browser.evaluate("document.querySelector('#rows .count').textContent"),
            "4 rows (of 22)");
  filter("nothing has this");
  EXPECT_TRUE(texts(0).empty());
  filter("");
  EXPECT_EQ(texts(0).size(), 22u);
  EXPECT_EQ(browser.errors, Texts{});
}

// Texts that do harm unless they are escaped.
const std::vector<std::string> kHostile = {
    "<script>window.owned=1</script>",
    "</script><script>window.owned=1</script>",
    "\"><img src=x onerror=window.owned=1>",
    "' onmouseover='window.owned=1",
    "</title></style></svg><svg onload=window.owned=1>",
    "<!--<script>",
    "]]>{{constructor}}${1}\\u003c/script>",
    "javascript:window.owned=1",
    "\xe2\x80\xa8\xe2\x80\xa9\xe2\x80\xae line separators",
    std::string("nul \0 bell \a escape \x1b[31m", 26),
    "a\nb\rc\td",
    "|`*[x](javascript:alert(1))",
    std::string(1 << 20, 'A'),
    std::string(1 << 20, '<'),
    "",
};

std::vector<Record> hostile_records() {
  std::mt19937 random(7);
  const auto any = [&]() -> const std::string& { return kHostile[random() % kHostile.size()]; };
  std::vector<Record> records;
  for (int i = 0; i < 120; ++i) {
    Record record = attention_record({.seq_len = 1 << (random() % 12), .d_model = 16});
    record.study = random() % 4 ? "attention" : random() % 2 ? "model" : any();
    record.implementation = any();
    record.device = any();
    record.status = static_cast<Status>(random() % 6);
    record.error = any();
    record.command = any();
    record.time = any();
    record.workload["dtype"] = any();
    record.workload["model_size"] = any();
    record.workload["context_length"] = any();
    record.workload[any().substr(0, 50)] = any();
    record.settings["mode"] = any();
    record.settings[any().substr(0, 50)] = Json::array({any()});
    if (random() % 5 == 0) record.workload["seq_len"] = Json{{"nested", any()}};
    if (random() % 5 == 0) record.workload["seq_len"] = std::numeric_limits<uint64_t>::max();
    if (random() % 7 == 0) record.workload = Json::array({1, any()});
    if (!record.series.empty() && random() % 3 == 0) {
      record.series[0].statistics.median_ms =
          std::array{Statistics::kUnknown, -1.0, 0.0, 1e308, 1e-308}[random() % 5];
      record.series[0].statistics.median_low_ms = Statistics::kUnknown;
    }
    if (random() % 4 == 0) record.series.push_back(series_of(any().substr(0, 100), {1, 2, 3}));
    record.memory.peak = Bytes{
        std::array<int64_t, 4>{0, -5, 1 << 20, std::numeric_limits<int64_t>::max()}[random() % 4]};
    record.memory.predicted_peak = record.memory.peak;
    record.verification = {true, any(), any(), {{any(), Statistics::kUnknown, 0}, {any(), 1, 2}}};
    record.cost = CostFacts{{1000, 500, Bytes{10}}, {0, 0, Bytes{}}, any()};
    record.metrics = Json{{"forward", any()}, {any().substr(0, 40), Json{{"mfu", any()}}}};
    record.machine.cpu_model = any();
    record.machine.fingerprint = any().substr(0, 20);
    record.machine.isa = {any()};
    record.machine.caches = {{1, any(), Bytes{-1}}};
    if (random() % 3 == 0)
      record.machine.gpu = GpuFacts{.model = any(), .arch = any(), .software = any()};
    record.build.git_commit = any();
    records.push_back(std::move(record));
  }
  return records;
}

ReportInput hostile_input() {
  ReportInput input = input_of(hostile_records());
  for (const std::string& text : kHostile) {
    input.problems.push_back({text, {1, text}});
    input.sources.push_back(text);
  }
  return input;
}

TEST(SlowReportInChromium, HostileTextStaysText) {
  NEEDS_CHROMIUM();
  const TempDir directory;
  Chromium browser(directory / "profile");
  browser.open_page(write_page(directory, hostile_input()));
  EXPECT_EQ(browser.evaluate("window.owned === undefined"), true);
  EXPECT_EQ(browser.evaluate("document.querySelectorAll('img, iframe, object, [onload], [onerror], "
                             "[onmouseover]').length"),
            0);
  EXPECT_EQ(browser.evaluate(
                "[...document.scripts].filter((it) => it.type !== 'application/json').length"),
            1);
  open_folds(browser);
  EXPECT_EQ(browser.evaluate("window.owned === undefined"), true);
  EXPECT_EQ(browser.evaluate(
                "[...document.links].every((it) => it.getAttribute('href').startsWith('#'))"),
            true);
  EXPECT_GE(browser.evaluate("document.querySelectorAll('#rows tbody tr').length").get<int>(), 100);
  EXPECT_EQ(browser.errors, std::vector<std::string>{});
  EXPECT_EQ(browser.requests, std::vector<std::string>{});
}

TEST(HtmlPage, ItsPolicyForbidsWhatDefaultsDoNot) {
  const std::string page = to_html({});
  for (const char* rule : {"default-src 'none'", "base-uri 'none'", "form-action 'none'"})
    EXPECT_HAS(page, rule);
}

TEST(HtmlPage, NamesOfAMegabyteAreCut) {
  EXPECT_LT(to_html(make_report(hostile_input())).size(), size_t{8} << 20);
}

TEST(SlowReportInChromium, TenThousandRowsStayResponsive) {
  NEEDS_CHROMIUM();
  std::vector<Record> records;
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {  // two phases each
    records.push_back(
        attention_record({.implementation = i % 2 ? "naive" : "flash_of_a_long_name",
                          .seq_len = 16 + i / 2,
                          .d_model = 16 << (i % 4),
                          .forward_ms = 1e-3 * static_cast<double>(1 + random() % 1000000)}));
    records.back().command =
        "ridgeline attention --device cpu --threads 2 --seq-len " + std::to_string(i);
  }
  const TempDir directory;
  Chromium browser(directory / "profile");
  browser.open_page(write_page(directory, input_of(std::move(records))));
  const double ready_ms =
      browser.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd").get<double>();
  std::printf("10000 rows are ready after %.0f ms\n", ready_ms);
  open_folds(browser);
  EXPECT_EQ(browser.evaluate("document.querySelector('#rows .count').textContent"),
            "100 of 10000 rows");
  EXPECT_EQ(browser.evaluate("[...document.querySelectorAll('#rows tbody tr')].find((row) => "
                             "row.cells[0].textContent.startsWith('flash')).cells[0].innerHTML"),
            "flash_<wbr>of_<wbr>a_<wbr>long_<wbr>name");
  // The time until the browser has painted the sorted rows.
  const double slowest_ms = browser
                                .evaluate(R"((async () => {
    let slowest = 0;
    for (const button of document.querySelectorAll("#rows thead button")) {
      const begin = performance.now();
      button.click();
      document.body.getBoundingClientRect();
      await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
      slowest = Math.max(slowest, performance.now() - begin);
    }
    return slowest;
  })())")
                                .get<double>();
  RecordProperty("slowest_sort_ms", std::to_string(slowest_ms));
  std::printf("slowest sort of 10000 rows: %.0f ms\n", slowest_ms);
  EXPECT_EQ(browser.errors, std::vector<std::string>{});
}

TEST(HtmlEscape, LeavesNothingThatHtmlOrAScriptActsUpon) {
  for (const std::string& text : kHostile) {
    const std::string html = html_escape(text);
    EXPECT_EQ(html.find_first_of("<>\"'"), std::string::npos);
    EXPECT_EQ(html.find('\0'), std::string::npos);
    const std::string json = script_safe_json(Json(text).dump());
    EXPECT_EQ(json.find_first_of("<>&"), std::string::npos);
    EXPECT_LACKS(json, "\xe2\x80\xa8");
    EXPECT_EQ(Json::parse(json).get<std::string>(), text) << "the meaning is kept";
  }
}

}  // namespace
}  // namespace ridgeline
