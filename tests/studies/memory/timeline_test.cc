// Memory timelines of models and attention: their peaks are the ledger's and the prediction, their
// tensors those of the specification, and nothing is lost where a file cannot be written.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "measure/record_json.h"
#include "measure/test_support.h"
#include "report/page/html_page.h"
#include "runtime/cpu_device.h"
#include "studies/memory/model.h"
#include "studies/memory/recorded_timeline.h"
#include "studies/memory/timeline_row.h"
#include "studies/memory/timeline_tables.h"
#include "support/tiny_transformer.h"

namespace ridgeline::memory_study_test {
namespace {

constexpr Bytes kRoomForAll{256 << 20};

CpuOptions one_thread(Bytes budget = kRoomForAll) {
  return {.threads = 1, .ledger = {.budget = budget}};
}

StepWorkload model_row(const TransformerConfig& config, Mode mode, Scenario scenario,
                       ModelPrecision precision = ModelPrecision::fp32) {
  return {ModelWorkload{config, precision, mode}, mode, scenario};
}

StepWorkload tiny_row(Scenario scenario, Mode mode = Mode::vanilla) {
  return model_row(testing::tiny_transformer(), mode, scenario);
}

Record run(Device& device, const StepWorkload& workload, bool measure = true,
           const TimelineFiles& files = {}) {
  TimelineStudy study(device, {.measure = measure});
  return study.run(workload, files, study.describe(workload, {})).value();
}

// Heads that divide the width, and everything else as it comes.
TransformerConfig random_model(uint32_t seed) {
  std::mt19937 random(seed);
  const auto one_of = [&](std::initializer_list<int64_t> sizes) {
    return sizes.begin()[random() % sizes.size()];
  };
  const int64_t heads = one_of({1, 2, 3});
  return {.name = "random",
          .d_model = heads * one_of({8, 16}),
          .d_ff = one_of({12, 40, 96}),
          .layers = one_of({1, 2, 3}),
          .heads = heads,
          .vocabulary = one_of({24, 130, 500}),
          .batch_size = one_of({1, 2}),
          .context_length = one_of({7, 16, 33})};
}

TEST(MemoryTimelineStudy, ThePeakIsTheLedgersAndThePredictionInEveryMode) {
  for (uint32_t seed = 0; seed < 4; ++seed)
    for (const ModeInfo& mode : modes())
      for (const Scenario scenario :
           {Scenario::forward, Scenario::forward_backward, Scenario::full_step}) {
        const ModelPrecision precision =
            seed % 2 == 0 ? ModelPrecision::fp32 : ModelPrecision::mixed;
        CpuDevice device(one_thread());
        const StepWorkload workload = model_row(random_model(seed), mode.mode, scenario, precision);
        SCOPED_TRACE(label(workload) + ", seed " + std::to_string(seed));
        const Record record = run(device, workload);
        ASSERT_EQ(record.status, Status::ok) << record.error;
        const RecordedTimeline timeline = recorded_timeline(record).value();
        EXPECT_TRUE(timeline.is_measured);
        const auto ledger = static_cast<double>(record.memory.peak->count);
        const auto predicted = static_cast<double>(record.memory.predicted_peak->count);
        EXPECT_NEAR(ledger, predicted, 0.01 * predicted);
        EXPECT_NEAR(static_cast<double>((timeline.peak + timeline.gaps).count), ledger,
                    0.01 * ledger);
        if (!info(mode.mode).fuse) {
          EXPECT_EQ(timeline.gaps, Bytes{});
        }
        Bytes held, of_kinds;
        for (const RecordedTimeline::Tensors& each : timeline.held) held += each.total();
        EXPECT_LE(held, timeline.peak);
        for (const MemoryKindInfo& kind : memory_kinds())
          of_kinds += Bytes{
              record.metrics->at("at_peak").value(std::string(kind.column) + "_bytes", int64_t{0})};
        EXPECT_EQ(timeline.stairs.size(), static_cast<size_t>(random_model(seed).layers));
        for (const RecordedTimeline::Stair& stair : timeline.stairs)
          EXPECT_GT(stair.kept.count, 0) << stair.layer;
        EXPECT_EQ(of_kinds, timeline.peak + timeline.gaps) << record.metrics->at("at_peak").dump();
      }
}

TEST(MemoryTimelineStudy, OfAttentionTheSameHolds) {
  for (const ModeInfo& mode : modes())
    for (const Scenario scenario : {Scenario::forward, Scenario::forward_backward}) {
      CpuDevice device(one_thread());
      const AttentionConfig config{
          .batch_size = 2, .heads = 2, .seq_len = 48, .head_dim = 8, .causal = true};
      const Record record = run(device, {config, mode.mode, scenario});
      ASSERT_EQ(record.status, Status::ok) << record.error;
      EXPECT_EQ(record.memory.peak, record.memory.predicted_peak) << mode.name;
      const RecordedTimeline timeline = recorded_timeline(record).value();
      EXPECT_EQ(timeline.peak + timeline.gaps, *record.memory.peak) << mode.name;
    }
}

// Inference frees activations at their last use; a forward pass of training keeps them.
TEST(MemoryTimelineStudy, ForwardKeepsWhatBackwardNeeds) {
  CpuDevice device(one_thread());
  const RecordedTimeline timeline =
      recorded_timeline(run(device, tiny_row(Scenario::forward))).value();
  ASSERT_EQ(timeline.phases.size(), 1u);
  EXPECT_EQ(timeline.phases[0].name, "forward");
  ASSERT_EQ(timeline.stairs.size(), 2u);
  for (const RecordedTimeline::Stair& stair : timeline.stairs) EXPECT_GT(stair.kept.count, 0);
  EXPECT_EQ(timeline.points.back().live, timeline.points.back().predicted);
  EXPECT_GT(timeline.points.back().live, timeline.inputs + timeline.stairs[0].kept);
}

// shared/spec/MODELS.md has these sizes.
TEST(MemoryTimelineStudy, OfTheLargeModelNamesTheTensorsOfTheSpecification) {
  TransformerConfig config = transformer_config("2.7B");
  config.batch_size = 4;
  config.context_length = 512;
  CpuDevice device(one_thread());
  const Record record = run(device, model_row(config, Mode::vanilla, Scenario::forward), false);
  ASSERT_EQ(record.status, Status::ok) << record.error;
  EXPECT_FALSE(record.memory.peak.has_value()) << "nothing ran";
  const RecordedTimeline timeline = recorded_timeline(record).value();
  ASSERT_FALSE(timeline.largest.empty());
  const RecordedTimeline::Tensors& largest = timeline.largest.front();
  EXPECT_EQ(largest.each.count, 128 << 20);
  EXPECT_EQ(largest.type, "fp32[4, 32, 512, 512]");
  EXPECT_TRUE(largest.scope.starts_with("layers.*.attention.scores")) << largest.scope;
  EXPECT_EQ(largest.op, "matmul");
  EXPECT_EQ(largest.count, 32);
  ASSERT_TRUE(timeline.residual.has_value());
  EXPECT_EQ(timeline.residual->each.count, 20 << 20);
  EXPECT_EQ(timeline.stairs.size(), 32u);
  EXPECT_EQ(timeline.inputs.count / 4 / 1'000'000, 3406) << "parameters, and little else";
}

TEST(MemoryTimelineStudy, WhatDoesNotFitKeepsItsPrediction) {
  CpuDevice device(one_thread(Bytes{20'000}));
  const Record record = run(device, tiny_row(Scenario::full_step));
  EXPECT_EQ(record.status, Status::oom);
  EXPECT_HAS(record.error, "not tried");
  EXPECT_FALSE(record.memory.peak.has_value());
  EXPECT_GT(recorded_timeline(record).value().points.size(), 100u);
  EXPECT_EQ(run(device, tiny_row(Scenario::full_step), /*measure=*/false).status, Status::ok)
      << "a prediction alone always succeeds";
}

TEST(MemoryTimelineStudy, AFileThatCannotBeWrittenLosesNoFigures) {
  CpuDevice device(one_thread());
  const TempDir folder;
  const Record record = run(device, tiny_row(Scenario::full_step), true,
                            {.events = folder / "events.csv", .snapshot = "/dev/full"});
  ASSERT_EQ(record.status, Status::ok) << record.error;
  EXPECT_TRUE(record.metrics->contains("timeline_csv"));
  const std::string why = record.metrics->value("snapshot_not_written", "");
  EXPECT_HAS(why, "/dev/full");
  EXPECT_TRUE(recorded_timeline(record).has_value());
  const std::vector<Record> records = {record};
  bool said = false;
  for (const std::string& note : timeline_notes(records))
    said = said || note.find("no snapshot: ") != std::string::npos;
  EXPECT_TRUE(said);
  const std::string csv = read_text(folder / "events.csv");
  EXPECT_TRUE(csv.starts_with("event,node,scope,phase,bytes,live_bytes,predicted_live_bytes,"))
      << csv.substr(0, 100);
  const auto lines = std::count(csv.begin(), csv.end(), '\n');
  EXPECT_EQ(lines, recorded_timeline(record)->events + 1);
}

TEST(MemoryTimelineStudy, TablesPutScenariosPrecisionsAndFiguresSideBySide) {
  CpuDevice device(one_thread());
  std::vector<Record> records;
  for (const ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed})
    for (const Scenario scenario : {Scenario::forward, Scenario::full_step})
      records.push_back(
          run(device, model_row(testing::tiny_transformer(), Mode::vanilla, scenario, precision)));
  const Table peaks = timeline_peaks(records);
  EXPECT_EQ(peaks.columns,
            (std::vector<std::string>{"workload", "implementation", "forward", "forward measured",
                                      "full-step", "full-step measured"}));
  ASSERT_EQ(peaks.rows.size(), 2u) << "one of each precision";
  for (const std::vector<std::string>& row : peaks.rows) {
    EXPECT_EQ(row[2], row[3]);
    EXPECT_EQ(row[4], row[5]);
  }
  const Table csv = timeline_csv(records);
  ASSERT_EQ(csv.rows.size(), 4u);
  EXPECT_EQ(csv.rows[0].size(), csv.columns.size());
  EXPECT_EQ(timeline_answers(records[1]).size(), 5u);
  const std::vector<std::string> notes = timeline_notes(records);
  EXPECT_EQ(std::ranges::count_if(
                notes, [](const std::string& note) { return note.starts_with("Mixed precision"); }),
            2)
      << "one of each scenario";
  EXPECT_FALSE(held_at_peak(records[1], 8).rows.empty());
}

TEST(MemoryTimelineStudy, TheReportDrawsBothCurvesAndNamesTheTensorsBehindThem) {
  CpuDevice device(one_thread());
  // As a report gets it: from a file.
  const Record record =
      record_from_json(Json::parse(to_json(run(device, tiny_row(Scenario::full_step))).dump()));
  const ReportDocument document =
      make_report({.records = {record}, .sections = {timeline_section}});
  ASSERT_FALSE(document.sections.empty());
  const ReportSection& section = document.sections.front();
  EXPECT_EQ(section.id, "memory-timeline");
  for (const char* part :
       {" with ", "optimizer state ", "parameters ", ". Its largest tensors are "})
    EXPECT_HAS(section.answer, part);
  ASSERT_EQ(section.views.size(), 1u);
  const Chart& chart = section.views[0].charts.at(0);
  ASSERT_EQ(chart.series.size(), 4u);
  EXPECT_EQ(chart.series[0].name, "optimizer state") << "what stays is a band of its kind";
  EXPECT_EQ(chart.series[1].name, "parameters");
  EXPECT_LE(chart.series[0].points.at(0).y, static_cast<double>(chart.series[2].points.at(0).y));
  EXPECT_EQ(chart.series[2].points.size(), chart.series[3].points.size());
  std::vector<std::string> phases;
  for (const Tick& tick : chart.x.ticks) phases.push_back(tick.text);
  EXPECT_EQ(phases, (std::vector<std::string>{"forward", "backward", "optimizer"}));
  double most = 0;
  for (const ChartPoint& point : chart.series[3].points) most = std::max(most, point.y);
  EXPECT_EQ(most, static_cast<double>(record.memory.peak->count)) << "the peak is not thinned out";
  EXPECT_LT(chart_table(chart).rows.size(), 20u) << "nobody reads hundreds of points";
  const std::string html = to_html(document);
  for (const char* part : {"<polygon", " of layers.0.attention.", "by matmul"})
    EXPECT_HAS(html, part);
}

TEST(RecordedTimeline, IsReadBackAsItWasWritten) {
  CpuDevice device(one_thread());
  const Record record = run(device, tiny_row(Scenario::full_step, Mode::compiled));
  const Json& written = record.metrics->at("timeline");
  EXPECT_EQ(to_json(recorded_timeline(record).value()).dump(), written.dump());
}

TEST(RecordedTimeline, OfADamagedFileIsWhatCanBeRead) {
  Record record;
  record.study = "memory";
  record.workload = {{"of", "model"}, {"scenario", "full-step"}};
  EXPECT_FALSE(recorded_timeline(record).has_value());
  for (const char* text :
       {R"(5)", R"([])", R"({})", R"({"points": {}, "phases": 3, "held": [1, []], "stairs": null})",
        R"({"points": [[1, 2], [1, 2, 3, 4, 5], ["a", 1, 2, 3, "x"]], "events": -4})",
        R"({"points": [[1e300, -1e300, 1e99, 0, "\u0007\"<script>"], [0, 1, 1, 1, ""]],
            "largest": [{"bytes": 1e300, "count": 1e300, "name": 7}], "at_peak": [], "events": 9,
            "stairs": [{"layer": {}}, {"kept_bytes": -1e300}], "phases": [{"name": []}]})"}) {
    record.metrics = Json{{"timeline", Json::parse(text)}};
    const std::vector<Record> records = {record};
    const ReportDocument document =
        make_report({.records = records, .sections = {timeline_section}});
    EXPECT_LACKS(to_html(document), "<script>\"");
    EXPECT_LE(timeline_csv(records).rows.size(), 1u);
    timeline_answers(record);
    timeline_notes(records);
  }
}

}  // namespace
}  // namespace ridgeline::memory_study_test
