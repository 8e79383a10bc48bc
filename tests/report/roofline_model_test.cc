// Ceilings from records, ops placed below them, and the sentences about them.
#include "measure/roofline_model.h"

#include <gtest/gtest.h>

#include <limits>
#include <set>

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

RooflinePoint placed(const Record& record) {
  const std::vector<Record> records = ceilings();
  const std::vector<Roofline> all = rooflines(records);
  const std::vector<RooflinePoint> points = place({&record, 1}, all.at(0));
  EXPECT_EQ(points.size(), 1u);
  return points.empty() ? RooflinePoint{} : points[0];
}

TEST(Roofline, LoadsAloneAreACeilingForWorkThatReads) {
  std::vector<Record> records = ceilings();
  const auto add = [&](const char* probe, const Record& of) {
    records.push_back(of);
    records.back().implementation = probe;
  };
  add("read", memory("memory", 12, 0));
  add("read-streaming", memory("memory", 14, 0));
  add("read", memory("L2", 40, 1'000'000));
  const Roofline roofline = rooflines(records).at(0);
  EXPECT_EQ(roofline.main_memory()->rate, 10e9) << "other work writes, too";
  const Roofline reading = roofline.for_reading();
  EXPECT_EQ(reading.main_memory()->rate, 14e9);
  EXPECT_EQ(reading.main_memory()->probe, "read-streaming");
  EXPECT_EQ(reading.find_memory(Bytes{1000}, false)->rate, 40e9) << "below a copy's, too";
}

// The terminal, the roofline of a report and the section of the study use the same function, as two
// roofs would give one row two bounds.
TEST(Roofline, ARowThatItsStudyHeldAgainstLoadsIsHeldAgainstThemEverywhere) {
  std::vector<Record> records = ceilings();
  records.push_back(memory("memory", 4, 0));
  records.back().implementation = "read";
  Record decode = op(10e6, 100'000'000, 40e-3, "decode", "compiled");  // 2.5 GB/s
  decode.metrics = Json{{"forward", {{"memory_probe", "read"}}}};
  const Record other = op(10e6, 100'000'000, 40e-3, "model", "compiled");
  const Roofline roofline = rooflines(records).at(0);
  EXPECT_EQ(roofline.slope_of(decode, "forward", Bytes{100'000'000})->rate, 4e9);
  EXPECT_EQ(roofline.slope_of(other, "forward", Bytes{100'000'000})->rate, 10e9);
  EXPECT_NEAR(place({&decode, 1}, roofline).at(0).share, 2.5 / 4, 1e-9);

  ReportInput input{.records = records};
  input.records.insert(input.records.end(), {decode, other});
  const ReportContext context = report_context(input);
  ASSERT_EQ(context.dots.size(), 2u);
  EXPECT_EQ(bound_words(context.dots[0]), "memory (62 % of the memory roof of loads)");
  EXPECT_EQ(bound_words(context.dots[1]), "its own code (25 % of the memory roof)");
  const ReportSection section = roofline_section(context);
  EXPECT_HAS(section.certainty.why, "Memory: 10 GB/s; of loads alone 4, for a decoder layer")
      << section.certainty.why << ": both are named in one place";
  std::set<std::string> labels;
  for (const ChartSeries& series : section.views.at(0).charts.at(0).series)
    for (const ChartPoint& point : series.points) labels.insert(point.label);
  EXPECT_TRUE(labels.contains("memory: 10 GB/s"));
  EXPECT_TRUE(labels.contains("loads alone: 4 GB/s"));
}

TEST(Roofline, WhatACacheHoldsIsToldByTheRoofOfTheCache) {
  ReportInput input{.records = ceilings()};
  input.records.push_back(op(100e3, 200'000, 10e-6));
  const ReportContext context = report_context(input);
  EXPECT_EQ(bound_words(context.dots.at(0)), "its own code (40 % of the L2 roof)");
}

// A median with an interval of +-16 % is not reported if others are better known.
TEST(Roofline, TheClosestToItsRoofIsOneWhoseMedianIsKnownWell) {
  ReportInput input{.records = ceilings()};
  for (const auto& [size, seconds, half_width] :
       {std::tuple(64, 16e-3, 0.16), {65, 20e-3, 0.01}, {66, 25e-3, 0.01}}) {
    Record record = op(1e9, 10'000'000, seconds);
    record.workload["m"] = size;
    Statistics& of = record.series[0].statistics;
    of.median_coverage = 0.95;
    of.median_low_ms = of.median_ms * (1 - half_width);
    of.median_high_ms = of.median_ms * (1 + half_width);
    record.series[0].samples_ms.assign(9, of.median_ms);
    input.records.push_back(record);
  }
  const ReportContext context = report_context(input);
  std::vector<const RooflineDot*> dots;
  for (const RooflineDot& dot : context.dots) dots.push_back(&dot);
  EXPECT_NEAR(closest_to_roof(dots)->share(), 0.5, 1e-9);
  EXPECT_NEAR(closest_to_roof({dots[0]})->share(), 0.625, 1e-9) << "there is no other";
  EXPECT_EQ(preferred_words(dots, *dots[1]), " of those known to within 5 %")
      << "dots[0] is closer";
  EXPECT_EQ(preferred_words({dots[1], dots[2]}, *dots[1]), "");
  EXPECT_HAS(
      make_report({.records = input.records, .sections = {roofline_section}}).sections.at(0).answer,
      "; the closest of those known to within 5 %, ");
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

// Files may hold any number; the undefined-behaviour sanitizer checks the arithmetic.
TEST(Roofline, CountsBeyond64BitsAreNoOverflow) {
  std::vector<Record> records = ceilings();
  (*records[1].metrics)["capacity_bytes"] = 1e300;
  const std::vector<Roofline> all = rooflines(records);
  Record huge = op(1, 1, 1, "model", "vanilla");
  huge.cost->forward = huge.cost->backward = {INT64_MAX, INT64_MAX, Bytes{INT64_MAX}};
  huge.series[0].name = "full_step";
  const auto points = place({&huge, 1}, all.at(0));
  ASSERT_EQ(points.size(), 1u);
  EXPECT_EQ(points[0].bytes, 0x1p63);
  EXPECT_FALSE(roofline_plot(all.at(0), "fp32", points).empty());
}

TEST(Roofline, APointWithoutAPlaceGoesToTheEdgeOfThePlot) {
  const std::vector<Record> records = ceilings();
  const Roofline roofline = rooflines(records).at(0);
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const double odd : {0.0, 5e-324, 1e308, kInfinity, std::nan("")}) {
    RooflinePoint point = placed(op(1e9, 10'000'000, 1));
    point.intensity = point.rate = odd;
    EXPECT_HAS(roofline_plot(roofline, "fp32", std::vector{point}), "A");
  }
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

TEST(Roofline, ThreadsAndInstructionSetsHaveRoofsOfTheirOwn) {
  std::vector<Record> records = ceilings();
  const std::vector<Json> settings = {{{"threads", 1}, {"isa", "avx2"}},
                                      {{"threads", 2}, {"isa", "avx2"}},
                                      {{"threads", 2}, {"isa", "avx512"}},
                                      {{"threads", 4}, {"isa", "avx512"}}};
  for (size_t i = 0; i + 1 < settings.size(); ++i) {
    records.push_back(compute("fma", "fp32", 200 + static_cast<double>(i)));
    records.push_back(memory("memory", 10, 0));
    for (size_t last : {1, 2}) records[records.size() - last].settings = settings[i];
  }
  const std::vector<Roofline> all = rooflines(records);
  EXPECT_EQ(all.size(), settings.size());
  Record ran = op(1e9, 10'000'000, 1);
  for (size_t i = 0; i < settings.size(); ++i) {
    ran.settings = settings[i];
    const Roofline* own = roofline_of(ran, all);
    ASSERT_EQ(own != nullptr, i + 1 < settings.size()) << settings[i].dump();
    if (own != nullptr) {
      EXPECT_EQ(own->find_compute("fp32")->rate, (200 + static_cast<double>(i)) * 1e9);
    }
    for (const Roofline& roofline : all)
      EXPECT_EQ(place({&ran, 1}, roofline).size(), &roofline == own ? 1u : 0u);
  }
}

TEST(Roofline, CachesAreNoReasonForMoreThanTheArithmeticOfTheProbe) {
  const std::string memory = sentence(placed(op(10e6, 10'000'000, 0.5e-3)));
  EXPECT_HAS(memory, "cache");
  const std::string compute = sentence(placed(op(1e9, 10'000'000, 5e-3)));
  EXPECT_HAS(compute, "200 %");
  EXPECT_LACKS(compute, "cache");
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
  EXPECT_HAS(said(op(1e3, 5'000, 5e-6)), "to start it");
  EXPECT_HAS(said(op(10e6, 10'000'000, 0.5e-3)), "200 %") << "above the roof is said, not hidden";
}

// The roof explains half of the 8 us of the first op, and a tenth of the second.
TEST(Roofline, OnlyWhatItsRoofDoesNotExplainIsBlamedOnTheStart) {
  EXPECT_EQ(placed(op(200e3, 200'000, 8e-6)).bound, Bound::memory);
  const Record call = op(40e3, 40'000, 8e-6);
  EXPECT_EQ(placed(call).bound, Bound::overhead);
  EXPECT_HAS(sentence(placed(call)), "8.0 us, of which its roof explains 10 %");
}

TEST(Roofline, AdviceIsOfTheDevice) {
  struct Case {
    Record record;
    const char* only_on_gpus;
  };
  for (Case& each :
       std::vector<Case>{{op(1e3, 5'000, 5e-6), "launch graph"},
                         {op(1e9, 10'000'000, 1, "gemm", "tiled"), "tensor cores"},
                         {op(10e6, 10'000'000, 1, "gemm", "naive"), "neighbouring threads"}}) {
    const RooflinePoint point = placed(each.record);
    const std::string on_cpu = sentence(point);
    EXPECT_LACKS(on_cpu, each.only_on_gpus);
    each.record.device = "cuda";
    EXPECT_HAS(sentence(point), each.only_on_gpus);
  }
}

TEST(Roofline, CloseToTheRoofSaysWhatTuningCanStillSave) {
  const std::string close = sentence(placed(op(1e9, 10'000'000, 1e-2 / 0.72)));
  EXPECT_HAS(close, "reaches 72 % of it, so tuning saves at most 28 % of its time");
  EXPECT_LACKS(close, "only");
}

TEST(Roofline, NaiveAttentionIsPointedToFlashHoweverFarItIs) {
  for (const char* study : {"attention", "kernel"})
    for (const double seconds : {1.1e-3, 1e-2}) {
      const std::string text = sentence(placed(op(10e6, 10'000'000, seconds, study, "naive")));
      EXPECT_HAS(text, "flash never stores");
    }
}

TEST(Roofline, Fp32ByThreeNarrowProductsHasACeilingOfItsOwn) {
  const std::vector<Record> ceilings = gpu_ceilings();
  const Roofline roofline = rooflines(ceilings).at(0);
  const Record record = fp32_attention(92);
  const RooflinePoint point = place({&record, 1}, roofline).at(0);
  EXPECT_EQ(point.path, "fp32 by 3 fp16 products");
  EXPECT_DOUBLE_EQ(point.ceiling, 230e12);
  EXPECT_NEAR(point.share, 0.4, 1e-9);
  EXPECT_HAS(sentence(point), "forward in fp32 by 3 fp16 products");
  EXPECT_LACKS(sentence(point), "disturbed");
  EXPECT_HAS(roofline_plot(roofline, point.path, {&point, 1}), "fp32 by 3 fp16 products of");
  EXPECT_EQ(roofline_points({&point, 1}).columns[3], "dtype") << "known to scripts";
  EXPECT_EQ(roofline_points({&point, 1}).rows[0][3], "fp32");
}

// Without the path only the dtype is known: exceeding its ceiling does not prove that the probe was
// disturbed.
TEST(Roofline, OlderRecordsSayThatTheirArithmeticIsNotKnown) {
  const std::vector<Record> ceilings = gpu_ceilings();
  Record record = fp32_attention(92);
  record.metrics.reset();
  const RooflinePoint point = place({&record, 1}, rooflines(ceilings).at(0)).at(0);
  EXPECT_EQ(point.path, "fp32");
  EXPECT_FALSE(point.path_is_known);
  const std::string text = sentence(point);
  EXPECT_HAS(text,
             "180 % of what the probe reached: its record does not say which arithmetic "
             "ran, and another has a higher ceiling, or the probe was disturbed");
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

}  // namespace
}  // namespace ridgeline
