// The HTML report in a real browser: it draws, sorts, filters, asks for nothing and lets no text of
// a record become a script.
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

// A small study with everything that the report draws: two implementations, a size that does not
// fit, cost and memory.
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

// Pixels of a canvas that are not transparent, and how many colours they have.
constexpr const char* kInk = R"((() => [...document.querySelectorAll("canvas")]
  .filter((canvas) => !canvas.closest("[hidden]")).map((canvas) => {
    const pixels = new Uint32Array(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data.buffer);
    const colours = new Map();
    for (const pixel of pixels) if (pixel >>> 24 === 255) colours.set(pixel, (colours.get(pixel) ?? 0) + 1);
    return {inked: pixels.filter((pixel) => pixel !== 0).length, colours: colours.size};
  }))())";

TEST(SlowReportInChromium, DrawsEveryChartWithoutErrorsOrRequests) {
  NEEDS_CHROMIUM();
  const TempDir directory;
  Chromium browser(directory / "profile");
  for (const bool dark : {false, true})
    for (const int width : {1280, 390}) {
      browser.set_dark(dark);
      browser.set_width(width);
      browser.open_page(write_page(directory, input_of(small_study())));
      const auto charts = browser.evaluate(kInk);
      ASSERT_EQ(charts.size(), 8u) << charts;  // 2 times, 2 speedups, 3 of memory, 1 roofline
      for (const auto& chart : charts) {
        EXPECT_GT(chart.at("inked").get<int>(), 2000) << charts;
        EXPECT_GT(chart.at("colours").get<int>(), 2) << charts;
      }
      EXPECT_EQ(browser.evaluate("document.documentElement.scrollWidth <= innerWidth"), true)
          << "the page is wider than a window of " << width;
    }
  // Another view draws its own charts.
  browser.evaluate(R"((() => { const select = document.querySelector("#attention select");
      select.value = "1"; select.dispatchEvent(new Event("change")); })())");
  for (const auto& chart : browser.evaluate(kInk)) EXPECT_GT(chart.at("inked").get<int>(), 2000);
  EXPECT_EQ(browser.errors, std::vector<std::string>{});
  EXPECT_EQ(browser.requests, std::vector<std::string>{});
}

// The texts of a column of the table of all rows, as shown.
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
  using Texts = std::vector<std::string>;
  const auto texts = [&](int index) { return browser.evaluate(column(index)).get<Texts>(); };
  constexpr int kImplementation = 0, kSeqLen = 1, kMedian = 5, kStatus = 11;
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
  EXPECT_EQ(texts(kImplementation).size(), 22u);  // 10 good records of two passes, 2 without
  click(kMedian);
  EXPECT_EQ(sorted_by(), Texts{"5ascending"});
  std::vector<double> up = numbers();
  EXPECT_EQ(std::vector(up.end() - 2, up.end()), (std::vector<double>{-1, -1}))
      << "empty cells come last";
  EXPECT_TRUE(std::is_sorted(up.begin(), up.end() - 2));
  click(kMedian);
  EXPECT_EQ(sorted_by(), Texts{"5descending"});
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

// Text that would be something else if it were not escaped.
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
            2);
  EXPECT_EQ(browser.evaluate(
                "[...document.links].every((it) => it.getAttribute('href').startsWith('#'))"),
            true);
  EXPECT_GT(browser.evaluate("document.querySelectorAll('#rows tbody tr').length").get<int>(), 100);
  EXPECT_EQ(browser.errors, std::vector<std::string>{});
  EXPECT_EQ(browser.requests, std::vector<std::string>{});
}

TEST(HtmlPage, NamesOfAMegabyteAreCut) {
  EXPECT_LT(to_html(make_report(hostile_input())).size(), size_t{8} << 20);
}

TEST(SlowReportInChromium, TenThousandRowsStayResponsive) {
  NEEDS_CHROMIUM();
  std::vector<Record> records;
  std::mt19937 random(1);
  for (int i = 0; i < 5000; ++i) {  // two passes each
    records.push_back(
        attention_record({.implementation = i % 2 ? "naive" : "flash",
                          .seq_len = 16 + i / 2,
                          .d_model = 16 << (i % 4),
                          .forward_ms = 1e-3 * static_cast<double>(1 + random() % 1000000)}));
    records.back().command =
        "ridgeline attention --device cpu --threads 2 --seq-len " + std::to_string(i);
  }
  const TempDir directory;
  Chromium browser(directory / "profile");
  browser.open_page(write_page(directory, input_of(std::move(records))));
  EXPECT_EQ(browser.evaluate("document.querySelector('#rows .count').textContent"),
            "200 of 10000 rows");
  // Until the browser has painted the sorted rows.
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
    EXPECT_EQ(json.find("\xe2\x80\xa8"), std::string::npos);
    EXPECT_EQ(Json::parse(json).get<std::string>(), text) << "the meaning is kept";
  }
}

}  // namespace
}  // namespace ridgeline
