// Ceilings from records, ops placed below them, and what is said of them.
#include "report/roofline_model.h"

#include <gtest/gtest.h>

#include "report/roofline_report.h"

namespace ridgeline {
namespace {

Record on_machine(const std::string& fingerprint) {
  Record record;
  record.device = "cpu";
  record.machine.fingerprint = fingerprint;
  record.machine.cpu_model = "A processor";
  return record;
}

Record compute(const char* probe, const char* dtype, double gflops) {
  Record record = on_machine("one");
  record.study = "roofline";
  record.implementation = probe;
  record.workload = {{"ceiling", "compute"}, {"dtype", dtype}};
  record.metrics = Json{{"gflops_per_s", gflops}};
  return record;
}

Record memory(const char* level, double gigabytes, int64_t capacity) {
  Record record = on_machine("one");
  record.study = "roofline";
  record.implementation = "copy";
  record.workload = {{"ceiling", "memory"}, {"level", level}};
  record.metrics = Json{{"gb_per_s", gigabytes}};
  if (capacity > 0) (*record.metrics)["capacity_bytes"] = capacity;
  return record;
}

// 100 GFLOP/s over 10 GB/s, 50 GB/s in a cache of 1 MB.
std::vector<Record> ceilings() {
  return {memory("memory", 10, 0), memory("L2", 50, 1'000'000), compute("library", "fp32", 90),
          compute("fma", "fp32", 100)};
}

Record op(double flops, int64_t bytes, double seconds, const char* study = "gemm",
          const char* implementation = "library") {
  Record record = on_machine("one");
  record.study = study;
  record.implementation = implementation;
  record.workload = {{"m", 64}, {"dtype", "fp32"}};
  const auto count = static_cast<int64_t>(flops);
  record.cost =
      CostFacts{.forward = {count, count / 2, Bytes{bytes}}, .backward = {}, .convention = ""};
  Series series;
  series.name = "forward";
  series.statistics.median_ms = 1e3 * seconds;
  record.series = {series};
  return record;
}

RooflinePoint placed(const Record& record) {
  const std::vector<Record> records = ceilings();
  const std::vector<Roofline> all = rooflines(records);
  const std::vector<RooflinePoint> points = place({&record, 1}, all.at(0));
  EXPECT_EQ(points.size(), 1u);
  return points.empty() ? RooflinePoint{} : points[0];
}

TEST(Roofline, TheRoofIsTheBestProbeAndLevelsGrow) {
  const std::vector<Record> records = ceilings();
  const std::vector<Roofline> all = rooflines(records);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].find_compute("fp32")->rate, 100e9);
  EXPECT_EQ(all[0].find_compute("fp32")->probe, "fma");
  EXPECT_EQ(all[0].find_compute("bf16"), nullptr);
  ASSERT_EQ(all[0].memory.size(), 2u);
  EXPECT_EQ(all[0].memory[0].level, "L2");
  EXPECT_EQ(all[0].main_memory()->rate, 10e9);
  EXPECT_DOUBLE_EQ(*all[0].ridge("fp32"), 10);
  EXPECT_FALSE(all[0].ridge("bf16"));
}

TEST(Roofline, OfACeilingMeasuredTwiceTheLaterCounts) {
  std::vector<Record> records = ceilings();
  records.push_back(compute("fma", "fp32", 95));
  EXPECT_EQ(rooflines(records).at(0).find_compute("fp32")->rate, 95e9);
}

TEST(Roofline, MachinesAndDevicesHaveRoofsOfTheirOwn) {
  std::vector<Record> records = ceilings();
  records.push_back(compute("fma", "fp32", 999));
  records.back().machine.fingerprint = "two";
  const std::vector<Roofline> all = rooflines(records);
  ASSERT_EQ(all.size(), 2u);
  Record other = op(1e9, 10'000'000, 1);
  other.machine.fingerprint = "two";
  EXPECT_EQ(roofline_of(other, all)->find_compute("fp32")->rate, 999e9);
  other.device = "cuda";
  EXPECT_EQ(roofline_of(other, all), nullptr);
  for (const Roofline& roofline : all) EXPECT_TRUE(place({&other, 1}, roofline).empty());
}

TEST(Roofline, LowIntensityIsBoundByMemoryHighByArithmetic) {
  const RooflinePoint low = placed(op(10e6, 10'000'000, 2e-3));
  EXPECT_EQ(low.bound, Bound::memory);
  EXPECT_DOUBLE_EQ(low.intensity, 1);
  EXPECT_DOUBLE_EQ(low.attainable, 10e9);
  EXPECT_DOUBLE_EQ(low.share, 0.5);
  const RooflinePoint high = placed(op(1e9, 10'000'000, 20e-3));
  EXPECT_EQ(high.bound, Bound::compute);
  EXPECT_DOUBLE_EQ(high.attainable, 100e9);
  EXPECT_DOUBLE_EQ(high.share, 0.5);
}

TEST(Roofline, WhatFitsACacheIsHeldAgainstItUnlessItWasEmptied) {
  Record small = op(1e6, 500'000, 100e-6);
  EXPECT_EQ(placed(small).level, "L2");
  EXPECT_DOUBLE_EQ(placed(small).attainable, 2 * 50e9);
  small.settings["mode"] = "cold";
  EXPECT_EQ(placed(small).level, "memory");
  EXPECT_DOUBLE_EQ(placed(small).attainable, 2 * 10e9);
}

TEST(Roofline, WhatIsMostlyItsStartIsCalledSo) {
  EXPECT_EQ(placed(op(1e3, 5'000, 5e-6)).bound, Bound::overhead);
}

TEST(Roofline, SentencesNameTheBoundAndWhatHelps) {
  const auto said = [](const Record& record) { return sentence(placed(record)); };
  EXPECT_NE(said(op(10e6, 10'000'000, 1.1e-3)).find("bandwidth of memory"), std::string::npos);
  EXPECT_NE(said(op(10e6, 10'000'000, 1.1e-3, "attention", "naive")).find("flash"),
            std::string::npos);
  EXPECT_NE(said(op(1e9, 10'000'000, 1, "gemm", "naive")).find("tiles"), std::string::npos);
  EXPECT_NE(said(op(1e9, 10'000'000, 10.5e-3)).find("fewer FLOPs"), std::string::npos);
  EXPECT_NE(said(op(1e3, 5'000, 5e-6)).find("to start it"), std::string::npos);
  EXPECT_NE(said(op(10e6, 10'000'000, 0.5e-3)).find("200 %"), std::string::npos)
      << "above the roof is said, not hidden";
}

TEST(Roofline, DamagedRecordsAreNoCeilingsAndNoPoints) {
  std::vector<Record> records = ceilings();
  for (const Json& bad : {Json("text"), Json{{"gflops_per_s", "fast"}}, Json{{"gflops_per_s", -1}},
                          Json(nullptr), Json::array()}) {
    Record record = compute("fma", "bf16", 1);
    record.metrics = bad;
    records.push_back(record);
  }
  Record listed = compute("fma", "bf16", 1);
  listed.workload = Json::array();
  records.push_back(listed);
  const std::vector<Roofline> all = rooflines(records);
  EXPECT_EQ(all.at(0).find_compute("bf16"), nullptr);
  Record no_time = op(1e6, 1000, 1);
  no_time.series[0].statistics.median_ms = 0;
  Record no_cost = op(1e6, 1000, 1);
  no_cost.cost.reset();
  Record oom = op(1e6, 1000, 1);
  oom.status = Status::oom;
  for (const Record& record : {no_time, no_cost, oom})
    EXPECT_TRUE(place({&record, 1}, all[0]).empty());
}

TEST(RooflineReport, PlotAndTablesShowEveryPoint) {
  const std::vector<Record> records = ceilings();
  const Roofline roofline = rooflines(records).at(0);
  const std::vector<Record> ops = {op(10e6, 10'000'000, 2e-3), op(1e9, 10'000'000, 20e-3)};
  const std::vector<RooflinePoint> points = place(ops, roofline);
  const std::string plot = roofline_plot(roofline, "fp32", points);
  for (const char* part : {"A library", "B library", "ridge 10", "/", "-"})
    EXPECT_NE(plot.find(part), std::string::npos) << part << '\n' << plot;
  EXPECT_EQ(roofline_plot(roofline, "bf16", points), "");
  EXPECT_EQ(roofline_points(points).rows.size(), 2u);
  EXPECT_EQ(compute_ceilings(roofline).rows.size(), 1u);
  EXPECT_EQ(memory_ceilings(roofline).rows.size(), 2u);
  EXPECT_EQ(roofline_csv(records).rows.size(), 4u);
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
