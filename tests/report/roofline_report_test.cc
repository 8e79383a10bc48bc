// What the report says and draws of ceilings and of the work below them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "measure/roofline_model.h"
#include "report/page/palette.h"
#include "report/page/roofline_dots.h"
#include "report/page/rows.h"
#include "report/page/sections.h"
#include "report/roofline_records.h"
#include "studies/roofline/tables.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

using roofline_testing::ceilings;
using roofline_testing::compute;
using roofline_testing::fp32_attention;
using roofline_testing::gpu_ceilings;
using roofline_testing::memory;
using roofline_testing::op;

TEST(RooflineReport, PlotAndTablesShowEveryPoint) {
  const std::vector<Record> records = ceilings();
  const Roofline roofline = rooflines(records).at(0);
  const std::vector<Record> ops = {op(10e6, 10'000'000, 2e-3), op(1e9, 10'000'000, 20e-3)};
  const std::vector<RooflinePoint> points = place(ops, roofline);
  const std::string plot = roofline_plot(roofline, "fp32", points);
  for (const char* part : {"A library", "B library", "ridge 10", "/", "-"})
    EXPECT_HAS(plot, part) << part << '\n' << plot;
  EXPECT_EQ(roofline_plot(roofline, "bf16", points), "");
  EXPECT_EQ(roofline_points(points).rows.size(), 2u);
  EXPECT_EQ(compute_ceilings(roofline).rows.size(), 1u);
  EXPECT_EQ(memory_ceilings(roofline).rows.size(), 2u);
  EXPECT_EQ(roofline_csv(records).rows.size(), 4u);
}

// A phase has the same place in a report and in `ridgeline roofline`.
TEST(RooflineReport, ThePageAndTheCommandAgree) {
  ReportInput input{.records = ceilings()};
  Record record = op(1e9, 10'000'000, 20e-3, "attention", "naive");
  record.cost->forward.flops /= 2;  // the convention of causal attention, though all of it runs
  record.cost->backward = {3'000'000, 7'000'000, Bytes{500'000}};
  record.series.push_back(record.series[0]);
  record.series[1].name = "backward";
  record.series.push_back(record.series[0]);
  record.series[2].name = "forward_host";
  input.records.push_back(record);
  record.series.resize(1);
  record.series[0].name = "full_step";
  record.workload = {{"m", 128}, {"precision", "fp32"}, {"dtype", "bf16"}};
  input.records.push_back(record);

  const std::vector<RooflinePoint> points = place(input.records, rooflines(input.records).at(0));
  const ReportContext context = report_context(input);
  const std::vector<RooflineDot> dots = roofline_dots(context);
  ASSERT_EQ(points.size(), 3u);
  ASSERT_EQ(dots.size(), points.size());
  for (size_t i = 0; i < dots.size(); ++i) {
    EXPECT_EQ(dots[i].series, points[i].phase);
    EXPECT_DOUBLE_EQ(dots[i].intensity, points[i].intensity);
    EXPECT_DOUBLE_EQ(dots[i].flops_per_s, points[i].rate);
    EXPECT_DOUBLE_EQ(dots[i].roof.value_or(0), points[i].attainable);
  }
}

// The roof of bf16 on paper is that of the matrix units if the processor has them.
TEST(RooflineReport, TheRoofOnPaperKnowsTheMatrixUnits) {
  ReportInput input{.records = {op(1e9, 10'000'000, 20e-3)}};
  Record& record = input.records[0];
  record.workload["dtype"] = "bf16";
  record.settings = {{"isa", "avx512"}, {"threads", 70'000}};
  record.machine.max_clock_mhz = 1000;
  const auto roof = [&] { return roofline_dots(report_context(input)).at(0).roof.value_or(0); };
  const double without = roof();
  EXPECT_NEAR(without, 70'000 * 128e9 * 1.1, 0.01 * without);
  record.machine.isa = {"amx_bf16"};
  EXPECT_DOUBLE_EQ(roof(), 16 * without);
}

TEST(RooflineReport, CeilingsSayWhatElseRan) {
  std::vector<Record> records = ceilings();
  EXPECT_EQ(compute_ceilings(rooflines(records).at(0)).title, "compute ceilings of A processor");
  for (Record& record : records) record.machine.logical_cores = 2;
  records[1].machine.load_average = 1.9;
  records[2].machine.load_average = 0.2;
  EXPECT_EQ(compute_ceilings(rooflines(records).at(0)).title,
            "compute ceilings of A processor, measured beside a load of 1.9 on 2 cores");
  records.push_back(memory("L2", 50, 1'000'000));  // measured again without load
  records.back().machine.logical_cores = 2;
  EXPECT_EQ(compute_ceilings(rooflines(records).at(0)).title,
            "compute ceilings of A processor, measured beside a load of 0.2 on 2 cores");
}

// Every share of a roof refers to a line in the chart.
TEST(RooflineReport, EveryDotIsItsShareOfALineThatIsDrawn) {
  std::vector<Record> records = ceilings();
  records.push_back(memory("L1", 200, 50'000));
  const struct {
    int64_t bytes;
    const char* line;
  } cases[] = {{40'000, "L1"}, {900'000, "L2"}, {5'000'000, "roof"}};
  for (const auto& [bytes, line] : cases) {
    std::vector<Record> all = records;
    const auto size = static_cast<double>(bytes);
    all.push_back(op(0.2 * size, bytes, size / 8e9));
    const ReportInput input{.records = all};
    const ReportSection section = roofline_section(report_context(input));
    const Chart& chart = section.views.at(0).charts.at(0);
    ASSERT_EQ(chart.series.size(), 4u);  // the roof, two caches, the dots
    std::set<std::string_view> colours;
    for (size_t i = 0; i < 3; ++i) colours.insert(colour_of(chart.series[i]).light);
    EXPECT_EQ(colours.size(), 3u);
    const ChartPoint& dot = chart.series.back().points.at(0);
    bool explained = false;
    for (size_t i = 0; i < 3; ++i) {
      const ChartPoint& low = chart.series[i].points.at(0);
      const double roof = low.y / low.x * dot.x;  // on the slope
      const std::string share = fmt::format("({:.0f} % of th", 100 * dot.y / roof);
      if (dot.text.find(share) != dot.text.npos)
        explained |= chart.series[i].name.starts_with(line);
    }
    EXPECT_TRUE(explained) << dot.text;
  }
}

TEST(RooflineReport, ThePageNamesThePathAndItsRoof) {
  ReportInput input{.records = gpu_ceilings()};
  input.records.push_back(fp32_attention(92));
  const ReportContext context = report_context(input);
  const RooflineDot dot = roofline_dots(context).at(0);
  EXPECT_EQ(dot.path, "fp32 by 3 fp16 products");
  EXPECT_DOUBLE_EQ(*dot.roof, 230e12);
  const ReportSection section = roofline_section(context);
  const ChartSeries& line = section.views.at(0).charts.at(0).series.at(0);
  EXPECT_EQ(line.name, "roof of fp32 by 3 fp16 products");
  EXPECT_EQ(line.points.back().label, "fp32 by 3 fp16 products: 230 TFLOP/s");
  EXPECT_EQ(line.group, "fp32 by 3 fp16 products");
  std::string summary;
  for (const std::string& each : summary_sentences(context)) summary += each + "\n";
  EXPECT_HAS(summary,
             "40 % of what the machine allows at its intensity (fp32 by 3 fp16 "
             "products)");
  EXPECT_LACKS(summary, "Ceilings:");

  input.records.back().metrics.reset();
  const ReportContext older = report_context(input);
  summary.clear();
  for (const std::string& each : summary_sentences(older)) summary += each + "\n";
  EXPECT_HAS(summary,
             "Ceilings: 1 timing ran faster than the ceiling of their dtype, and their "
             "records do not say which arithmetic ran");
  EXPECT_LACKS(summary, "measure those again");
  EXPECT_HAS(roofline_section(older).sentences.at(0),
             "1 dot is held against the ceiling of the "
             "dtype");
}

TEST(RooflineReport, PassesAboveTheirCeilingAreNotWithoutOne) {
  ReportInput input{.records = ceilings()};
  input.records.push_back(op(10e6, 10'000'000, 1e-7));
  const std::string above = roofline_section(report_context(input)).answer;
  EXPECT_HAS(above, "1 measured pass of");
  EXPECT_HAS(above, "with a known ceiling runs above it.");
  EXPECT_LACKS(above, "no ceiling");
}

// Without dots that memory bounds there is no advice for them.
TEST(RooflineReport, AdvisesFewerBytesOnlyWhereMemoryBounds) {
  const auto said = [](const std::vector<Record>& ops) {
    ReportInput input{.records = ceilings()};
    input.records.insert(input.records.end(), ops.begin(), ops.end());
    for (size_t i = 0; i < ops.size(); ++i)
      input.records[input.records.size() - 1 - i].workload["m"] = 64 + static_cast<int>(i);
    return roofline_section(report_context(input)).sentences.at(0);
  };
  const Record by_memory = op(10e6, 10'000'000, 2e-3), by_compute = op(1e9, 10'000'000, 20e-3),
               by_start = op(1e3, 5'000, 5e-6);
  EXPECT_HAS(said({by_compute, by_compute}), "Of 2 dots, 2 are bound by arithmetic.");
  const std::string all = said({by_compute, by_memory, by_memory, by_start});
  EXPECT_HAS(all,
             "Of 4 dots, 2 are bound by memory, where fewer bytes would help (fusion, "
             "narrower dtypes), 1 by arithmetic, 1 by their start (below 10 us), likely.");
  const Record above = op(1e9, 10'000'000, 1e-4);
  EXPECT_HAS(said({by_compute, by_compute, above}),
             "Of 3 dots, 2 are bound by arithmetic, 1 by no known roof (theirs is too low).")
      << "a roof below a measured speed bounds nothing";
}

TEST(RooflineReport, RowsOfOneThreadAndOfTwoHaveRoofsOfTheirOwn) {
  ReportInput input;
  for (const int threads : {1, 2}) {
    Record row = op(1e9, 10'000'000, 20e-3);
    row.settings = {{"isa", "avx2"}, {"threads", threads}};
    row.machine.max_clock_mhz = 2000;
    input.records.push_back(std::move(row));
  }
  const ReportSection section = roofline_section(report_context(input));
  const std::vector<ChartSeries>& series = section.views.at(0).charts.at(0).series;
  const auto peak = [&](const char* name) {
    const auto line = std::ranges::find(series, name, &ChartSeries::name);
    return line == series.end() ? 0 : line->points.back().y;
  };
  EXPECT_GT(peak("roof of fp32, 1 thread"), 0);
  EXPECT_DOUBLE_EQ(peak("roof of fp32, 2 threads"), 2 * peak("roof of fp32, 1 thread"));
}

// Half of arithmetic's roof is not reached by what memory bounds, either.
TEST(RooflineReport, WithoutABandwidthItDoesNotBlameTheCode) {
  ReportInput input{.records = {compute("fma", "fp32", 100), op(10e6, 10'000'000, 2e-3)}};
  const ReportContext context = report_context(input);
  EXPECT_EQ(bound_words(context.dots.at(0)),
            "memory, of unknown bandwidth, or its own code (5 % of the arithmetic roof)");
  EXPECT_HAS(roofline_section(context).answer,
             "Of 1 measured pass 1 is bound by memory, of unknown bandwidth, or their own code");
}

// Tables of studies count FLOPs by convention, so that a row has another figure there.
TEST(RooflineReport, SaysThatItsFlopsAreThoseDone) {
  const Table table = roofline_points({});
  EXPECT_EQ(std::count(table.columns.begin(), table.columns.end(), "GFLOP/s"), 0);
  EXPECT_HAS(table.title, "by convention");
}

TEST(RooflineReport, TheSpecTableHasTheLabsGpus) {
  const Table table = gpu_spec_table();
  for (const char* gpu :
       {"RTX A6000", "A10", "A100 SXM 80 GB", "H100 SXM", "H200 SXM", "RTX 4090", "L4"}) {
    const auto found = std::find_if(table.rows.begin(), table.rows.end(),
                                    [&](const auto& row) { return row[0] == gpu; });
    ASSERT_NE(found, table.rows.end()) << gpu;
    for (const std::string& cell : {(*found)[1], (*found)[2], (*found)[3]})
      EXPECT_FALSE(cell.empty());
  }
}

}  // namespace
}  // namespace ridgeline
