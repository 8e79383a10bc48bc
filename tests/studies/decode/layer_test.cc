// The layer study in small: counts against formulas, rows against the sequence without a cache, and
// what is said of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cost/cost.h"
#include "measure/record_values.h"
#include "measure/test_support.h"
#include "runtime/cpu_device.h"
#include "studies/decode/row.h"
#include "studies/decode/tables.h"
#include "studies/studies.h"

namespace ridgeline::decode_study_test {
namespace {

Gemma3Config small_layer() {
  return {.name = "small",
          .vocabulary = 16,
          .hidden_size = 24,
          .intermediate_size = 40,
          .heads = 4,
          .key_heads = 2,
          .head_dim = 8,
          .sliding_window = 5,
          .max_positions = 64,
          .layers = gemma3_layers(2, 2),
          .query_scalar = 11,
          .initializer_range = 0.3};
}

LayerWorkload small_workload(Gemma3Part part, bool decodes, bool has_cache) {
  return {.config = small_layer(),
          .part = part,
          .decodes = decodes,
          .has_cache = has_cache,
          .prompt = 9,
          .batch_size = 3,
          .dtype = DType::f32};
}

constexpr Gemma3Part kEveryPart[] = {Gemma3Part::attention, Gemma3Part::mlp, Gemma3Part::layer};

template <class Visit>
void for_every_row(Visit visit) {
  for (const Gemma3Part part : kEveryPart)
    for (const bool decodes : {false, true})
      for (const bool has_cache : {true, false}) visit(small_workload(part, decodes, has_cache));
}

LayerStudyOptions quick_layers() {
  return {.row = {.protocol = {.warmups = 0, .iterations = 6}}, .cold = false};
}

Roofline layer_roof(double ridge) {
  Roofline roofline;
  roofline.compute.push_back({.dtype = "fp32", .probe = "fma", .rate = ridge * 1e9});
  roofline.memory.push_back({.level = "memory", .probe = "copy", .rate = 1e9});
  return roofline;
}

// Projections, visible pairs and the MLP, by hand.
Cost products_by_hand(const LayerWorkload& workload) {
  const Gemma3Config& c = workload.config;
  const auto B = static_cast<double>(workload.batch_size),
             T = B * static_cast<double>(workload.tokens());
  const auto d = static_cast<double>(c.hidden_size), F = static_cast<double>(c.intermediate_size);
  const auto D = static_cast<double>(c.head_dim);
  const double Q = static_cast<double>(c.heads) * D, K = static_cast<double>(c.key_heads) * D;
  Cost cost;
  const auto product = [&](double m, double n, double k) {
    cost.macs += m * n * k;
    cost.bytes += (m * k + k * n + m * n) * info(workload.dtype).size;
  };
  if (workload.part != Gemma3Part::mlp) {
    product(T, Q, d);
    product(T, K, d);
    product(T, K, d);
    product(T, d, Q);
    double pairs = 0;
    for (int64_t i = workload.first(); i <= workload.last(); ++i)
      pairs += static_cast<double>(
          workload.kind == Gemma3Layer::full ? i + 1 : std::min(i + 1, c.sliding_window));
    cost.macs += 2 * B * Q * pairs;
  }
  if (workload.part != Gemma3Part::attention) {
    product(T, F, d);
    product(T, F, d);
    product(T, d, F);
  }
  return cost;
}

TEST(DecodeLayer, CostsAreTheFormulas) {
  std::mt19937 random(7);
  const auto any = [&](int64_t least, int64_t most) {
    return std::uniform_int_distribution<int64_t>(least, most)(random);
  };
  for (int i = 0; i < 10; ++i)
    for_every_row([&](LayerWorkload workload) {
      Gemma3Config& config = workload.config;
      config.hidden_size = any(2, 40);
      config.intermediate_size = any(2, 90);
      config.key_heads = any(1, 3);
      config.heads = config.key_heads * any(1, 3);
      config.head_dim = 2 * any(1, 8);
      config.sliding_window = any(1, 12);
      workload.prompt = any(1, 20);
      workload.batch_size = any(1, 5);
      workload.dtype = any(0, 1) == 0 ? DType::bf16 : DType::f32;
      workload.kind = any(0, 1) == 0 ? Gemma3Layer::full : Gemma3Layer::sliding;
      const Graph graph = layer_graph(workload);
      const std::vector<Cost> costs = node_costs(graph);
      Cost counted;
      for (size_t node = 0; node < costs.size(); ++node) {
        counted.macs += costs[node].macs;
        if (graph.nodes()[node].op == Op::matmul) counted.bytes += costs[node].bytes;
      }
      const Cost expected = products_by_hand(workload);
      EXPECT_EQ(counted.macs, expected.macs) << label(workload);
      EXPECT_EQ(counted.bytes, expected.bytes) << label(workload);
    });
}

TEST(DecodeLayer, EveryRowHasTheLastTokenOfTheSequenceWithoutACache) {
  CpuDevice device({.threads = 2, .ledger = {.budget = Bytes{64 << 20}}});
  LayerStudy study(device, quick_layers());
  const Record blank;
  for (const DType dtype : {DType::f32, DType::bf16})
    for_every_row([&](LayerWorkload workload) {
      if (dtype == DType::bf16 && workload.part != Gemma3Part::layer) return;
      workload.dtype = dtype;
      workload.kind = workload.decodes ? Gemma3Layer::sliding : Gemma3Layer::full;
      workload.mode = workload.has_cache ? Mode::compiled : Mode::vanilla;
      const Record record = study.run(workload, study.describe(workload, blank)).value();
      EXPECT_EQ(record.status, Status::ok) << label(workload) << ": " << record.error;
      EXPECT_TRUE(record.verification.checked);
      // Without flash, scores that the mask hides are computed as well.
      const int64_t least_macs = static_cast<int64_t>(products_by_hand(workload).macs);
      EXPECT_GE(record.cost->forward.macs, least_macs);
      EXPECT_TRUE(!info(workload.mode).flash || record.cost->forward.macs == least_macs);
      // A kernel reads weights at least, and writes the result.
      int64_t least = 2 * workload.batch_size * workload.config.hidden_size;
      for (const Parameter& each : gemma3_part_parameters(workload.config, workload.part))
        least += element_count(each.shape);
      EXPECT_GE(record.cost->forward.bytes, Bytes{least * info(dtype).size});
      EXPECT_GT(metric_of(record, "forward", "tokens_per_s").value(), 0);
      EXPECT_FALSE(metric_of(record, "forward", "predicted_ms"));
    });
}

TEST(DecodeLayer, TheCheckSeesAPositionThatIsOneOff) {
  CpuDevice device({.threads = 1, .ledger = {.budget = Bytes{64 << 20}}});
  const LayerWorkload workload = small_workload(Gemma3Part::attention, true, true);
  LayerValues values(device, 42);
  Executable executable([&](const Rewrite& forward) { return forward(layer_graph(workload)); },
                        device, layer_compile_options(workload));
  executable.prepare();
  values.load(workload, executable);
  const auto error_at = [&](int32_t position) {
    device.upload(executable.input("position"), &position);
    executable.run();
    double error = 0;
    const auto got = values.last_tokens(workload, executable);
    const LastTokens& expected = values.expected(workload);
    for (size_t i = 0; i < got[1].size(); ++i)
      error = std::max(error, std::abs(got[1][i] - expected.texts[1][i]));
    return error / expected.tolerance;
  };
  EXPECT_LE(error_at(9), 1);
  EXPECT_GT(error_at(8), 10);
}

TEST(DecodeLayer, TheBatchAtWhichDecodeCrossesTheRidgeIsTheOneThatIsNamed) {
  CpuDevice device({.threads = 1, .ledger = {.budget = Bytes{64 << 20}}});
  LayerStudyOptions options = quick_layers();
  options.roofline = layer_roof(3);
  LayerStudy study(device, options);
  std::vector<Record> records;
  const auto described = [&](int64_t batch) {
    LayerWorkload workload = small_workload(Gemma3Part::mlp, true, true);
    workload.batch_size = batch;
    return study.describe(workload, Record());
  };
  for (const int64_t batch : {2, 64}) records.push_back(described(batch));
  std::string named;
  for (const std::string& note : layer_notes(records))
    if (const size_t at = note.find("at batch "); at != std::string::npos)
      named = note.substr(at + std::string_view("at batch ").size());
  ASSERT_FALSE(named.empty());
  const int64_t batch = std::stoll(named);
  ASSERT_GT(batch, 2);
  const auto bound = [&](int64_t of) {
    return text_of(*described(of).metrics->find_key("forward"), "bound");
  };
  EXPECT_EQ(bound(batch), "compute");
  EXPECT_EQ(bound(batch - 1), "memory");
  for (const bool decodes : {false, true})
    records.push_back(study.describe(small_workload(Gemma3Part::layer, decodes, true), Record()));
  const std::string answer = layer_bounds(records);
  EXPECT_TRUE(answer.ends_with("crosses the ridge at batch " + std::to_string(batch))) << answer;
}

TEST(DecodeLayer, SentencesComeFromTheRows) {
  CpuDevice device({.threads = 1, .ledger = {.budget = Bytes{64 << 20}}});
  LayerStudyOptions options = quick_layers();
  options.roofline = layer_roof(2);
  LayerStudy study(device, options);
  std::vector<Record> records;
  for_every_row([&](const LayerWorkload& workload) {
    records.push_back(study.describe(workload, Record()));
    const double ms = workload.has_cache ? 2 : 8;
    Series& series = records.back().series.emplace_back();
    series.name = "forward";
    series.samples_ms = {ms};
    series.statistics.median_ms = ms;
  });
  std::string all;
  for (const std::string& note : layer_notes(records)) all += note + "\n";
  for (const char* text : {"so that its roof is arithmetic's", "so that its roof is memory's",
                           "took 4 times as long (8 ms against 2)", "and 50 % of the time of both",
                           "`ridgeline roofline` measured"})
    EXPECT_HAS(all, text) << text << " in\n" << all;
  const Table csv = layer_csv(records);
  ASSERT_EQ(csv.rows.size(), 12u);
  for (const auto& row : csv.rows) EXPECT_EQ(row.size(), csv.columns.size());
  for (const auto& row : layer_summary(records).rows)
    EXPECT_EQ(row.size(), layer_summary(records).columns.size());
}

TEST(DecodeLayer, TheCsvHasTheAbsoluteError) {
  CpuDevice device({.threads = 1, .ledger = {.budget = Bytes{64 << 20}}});
  Record record = LayerStudy(device, quick_layers())
                      .describe(small_workload(Gemma3Part::mlp, true, true), Record());
  record.verification.checked = true;
  record.verification.tensors = {{"y", 0.25, 0.5}};
  const Table csv = layer_csv(std::span(&record, 1));
  const auto column = std::ranges::find(csv.columns, "max_error") - csv.columns.begin();
  EXPECT_EQ(csv.rows.at(0).at(static_cast<size_t>(column)), "0.25");
}

TEST(DecodeLayer, ReportsPlaceThePartsBelowTheRoofOfReading) {
  CpuDevice device({.threads = 1, .ledger = {.budget = Bytes{64 << 20}}});
  LayerStudyOptions options = quick_layers();
  options.roofline = layer_roof(2);
  options.roofline->reads.push_back({.level = "memory", .probe = "read", .rate = 4e9});
  LayerStudy study(device, options);
  ReportInput input;
  for_every_row([&](const LayerWorkload& workload) {
    Record& record = input.records.emplace_back(study.describe(workload, Record()));
    EXPECT_EQ((*record.metrics)["forward"]["memory_probe"].text(), "read");
    EXPECT_EQ(metric_of(record, "forward", "ridge"), 0.5) << "2 GFLOP/s over 4 GB/s that are read";
    Series& series = record.series.emplace_back();
    series.name = "forward";
    series.samples_ms = {8};
    series.statistics.median_ms = 8;
  });
  const ReportSection section = layer_section(report_context(input));
  EXPECT_TRUE(section.question.ends_with("?"));
  EXPECT_HAS(section.answer, " and reaches ");
  EXPECT_HAS(section.answer, " bounds it");
  ASSERT_EQ(section.views.size(), 1u);
  const Chart& chart = section.views[0].charts.at(0);
  EXPECT_EQ(chart.series.size(), 3u * 3 + 1) << "prefill, decode with and without, and the roof";
  const ChartSeries& roof = chart.series.back();
  EXPECT_EQ(roof.name, "roofline");
  EXPECT_NEAR(roof.points[1].x, 0.5, 1e-9);
  EXPECT_NEAR(roof.points[1].y, 2e9, 1e3);
  EXPECT_TRUE(layer_section(report_context(ReportInput{})).empty());

  for (Record& record : input.records) record.series[0].statistics.median_ms = 1e-9;
  const std::string above = layer_section(report_context(input)).answer;
  EXPECT_HAS(above, " % of arithmetic's roof, which was measured too low; decode ");
  EXPECT_LACKS(above, "bounds it") << "no roof bounds what runs above it";
}

TEST(DecodeLayer, RefusesWhatMakesNoRow) {
  const auto refuses = [](auto change, const char* text) {
    LayerMatrix matrix;
    change(matrix);
    EXPECT_ERROR(expand_matrix(matrix), ErrorKind::usage, text);
  };
  refuses([](LayerMatrix& m) { m.configs = {"271m"}; }, "271m");
  refuses([](LayerMatrix& m) { m.parts = {"mpl"}; }, "mpl");
  refuses([](LayerMatrix& m) { m.phases = {"prefil"}; }, "prefil");
  refuses([](LayerMatrix& m) { m.caches = {"maybe"}; }, "maybe");
  refuses([](LayerMatrix& m) { m.dtypes = {"tf32"}; }, "tf32");
  refuses([](LayerMatrix& m) { m.prompts = {32768}; }, "32768");
  const DeclaredStudy without_layer(*find_study("decode"));
  EXPECT_ERROR(without_layer.study->check(), ErrorKind::usage, "--layer is missing");
  EXPECT_EQ(expand_matrix(LayerMatrix()).size(), 3u * 2 * 2 * 2 * 4);
}

TEST(DecodeLayer, CeilingsAreMeasuredOnesOrThoseOfTheDataSheet) {
  const DeviceFacts cpu{.kind = "cpu", .isa = "avx2"};
  const DeviceFacts gpu{
      .kind = "cuda", .isa = "sm_90a", .model = "NVIDIA H200", .multiprocessors = 132};
  EXPECT_FALSE(layer_ceilings(std::nullopt, cpu, "fp32"));
  EXPECT_TRUE(layer_ceilings(layer_roof(3), gpu, "fp32")->measured);
  EXPECT_FALSE(layer_ceilings(layer_roof(3), gpu, "bf16")->measured);  // of fp32 alone
}

}  // namespace
}  // namespace ridgeline::decode_study_test
