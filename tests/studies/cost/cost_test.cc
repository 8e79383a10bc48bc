// Costs: counts that agree with the formulae of teaching and with the studies that run the same
// graphs, least times by hand, and what people read of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "measure/record_values.h"
#include "models/attention.h"
#include "report/page/document.h"
#include "runtime/cpu_device.h"
#include "studies/attention/row.h"
#include "studies/cost/row.h"
#include "studies/cost/tables.h"
#include "support/expect.h"

namespace ridgeline::cost_study_test {
namespace {

constexpr double kB = 3, kL = 64, kD = 32, kI = 96, kH = 4, kV = 50;
const TransformerConfig kModel = {.name = "tiny",
                                  .d_model = 32,
                                  .d_ff = 96,
                                  .layers = 2,
                                  .heads = 4,
                                  .vocabulary = 50,
                                  .batch_size = 3,
                                  .context_length = 64};

CostWorkload work_of(CostOp op, CostPhase phase, AttentionForm form = AttentionForm::plain,
                     DType dtype = DType::f32) {
  return {.op = op, .phase = phase, .form = form, .dtype = dtype, .model = kModel};
}

Cost total_of(const CostWorkload& workload) {
  return count_work(workload).total;
}

TEST(CostCounts, ProductsAreThoseOfTheGraph) {
  Graph graph;
  const Tensor a = input(graph, "a", {DType::bf16, {30, 40}});
  const Tensor b = input(graph, "b", {DType::bf16, {40, 50}});
  matmul(a, b);
  const Cost counted = total_of({.dtype = DType::bf16, .shape = {.m = 30, .n = 50, .k = 40}});
  const Cost in_graph = stage_cost(graph, graph.stages()[0]);
  EXPECT_EQ(counted.macs, in_graph.macs);
  EXPECT_EQ(counted.flops, in_graph.flops);
  EXPECT_EQ(counted.bytes, in_graph.bytes);
}

// Attention MAC = 2 B H Lq Lk D, of which decode has one query.
TEST(CostCounts, AttentionMatchesTheTextbook) {
  const double head_dim = kD / kH;
  for (const AttentionForm form : {AttentionForm::plain, AttentionForm::fused}) {
    EXPECT_EQ(total_of(work_of(CostOp::attention, CostPhase::prefill, form)).macs,
              2 * kB * kH * kL * kL * head_dim);
    EXPECT_EQ(total_of(work_of(CostOp::attention, CostPhase::decode, form)).macs,
              2 * kB * kH * kL * head_dim);
  }
  // q, k, v read and the output written, and the logarithms of the sums.
  EXPECT_EQ(total_of(work_of(CostOp::attention, CostPhase::prefill, AttentionForm::fused)).bytes,
            4 * (4 * kB * kH * kL * head_dim + kB * kH * kL));
  EXPECT_EQ(total_of(work_of(CostOp::attention, CostPhase::decode, AttentionForm::fused)).bytes,
            4 * (2 * kB * kH * kL * head_dim + 2 * kB * kH * head_dim + kB * kH));
}

TEST(CostCounts, AttentionIsThatOfTheAttentionStudy) {
  const CountedWork counted = count_work(work_of(CostOp::attention, CostPhase::fwd_bwd));
  const AttentionConfig config{.batch_size = 3, .heads = 4, .seq_len = 64, .head_dim = 8};
  const CostFacts facts = attention_cost(config, attention_training_graph(config));
  EXPECT_EQ(counted.total.macs, static_cast<double>(facts.forward.macs + facts.backward.macs));
  EXPECT_EQ(counted.total.bytes,
            static_cast<double>((facts.forward.bytes + facts.backward.bytes).count));
}

TEST(CostCounts, AGemmaHasItsWeightsOfProductsAndItsCache) {
  const Gemma3Config config = gemma3_config("270m");
  constexpr int64_t kContext = 1024, kBatch = 2;
  const CostGemma gemma = gemmas_of({"270m"}, {kContext}, kBatch)[0];
  const std::vector<CostWorkload> works = expand_matrix({.ops = {CostOp::model},
                                                         .phases = {CostPhase::decode},
                                                         .forms = {AttentionForm::fused},
                                                         .dtypes = {DType::bf16},
                                                         .gemmas = {gemma}});
  ASSERT_EQ(works.size(), 1u);
  // Every weight of a product serves one token of each sequence; keys and values twice that.
  const double products = static_cast<double>(parameter_count(config));
  const double seen = 3 * kContext + 15 * 512;
  const double attention = 2 * kBatch * seen * static_cast<double>(config.heads * config.head_dim);
  EXPECT_NEAR(total_of(works[0]).macs, kBatch * products + attention, 0.001 * products);
  const CachedText text = cached_text(works[0]).value();
  EXPECT_EQ(text.cache.count, kBatch * (512 * 18 + 512 * 3) * 1024);
  EXPECT_EQ(text.weights.count, 2 * parameter_count(config));
  // Room for what the formula says, to the token.
  EXPECT_EQ(text.longest_context(text.weights + text.cache), kContext);
  EXPECT_EQ(text.longest_context(text.weights + text.cache - Bytes{1}), kContext - 1);
  EXPECT_EQ(text.longest_context(text.weights + Bytes{kBatch * 100 * 18 * 1024}), 100);
  EXPECT_EQ(text.longest_context(Bytes{int64_t{1} << 40}), config.max_positions);
  EXPECT_EQ(text.longest_context(Bytes{1}), 0);
}

// The cache of our own model is that of the decode graph's inputs.
TEST(CostCounts, TheCacheOfAModelIsThatOfItsGraph) {
  const CostWorkload decode = work_of(CostOp::model, CostPhase::decode);
  const Graph graph = inference_graph(kModel, {.phase = InferencePhase::decode});
  int64_t held = 0;
  for (const Value input : graph.inputs())
    if (const std::string name = graph.name(input);
        name.ends_with(".keys") || name.ends_with(".values"))
      held += byte_size(graph.type(input)).count;
  const int64_t of_a_token = cached_text(decode)->per_token.within_window.count;
  EXPECT_EQ(cached_text(decode)->cache.count, 3 * 64 * of_a_token);
  // The graph's own rows are those of the tokens before.
  EXPECT_TRUE(held == cached_text(decode)->cache.count || held == 3 * 63 * of_a_token) << held;
  EXPECT_FALSE(cached_text(work_of(CostOp::layer, CostPhase::decode)));
}

// MLP FLOPs = 6 B L D I, and for every one of B L I elements those of silu and a product.
TEST(CostCounts, MlpMatchesTheTextbook) {
  for (const auto& [phase, tokens] :
       {std::pair{CostPhase::prefill, kL}, {CostPhase::decode, 1.0}}) {
    const Cost cost = total_of(work_of(CostOp::mlp, phase));
    EXPECT_EQ(cost.macs, 3 * kB * tokens * kD * kI);
    const double per_element = (cost.flops - 6 * kB * tokens * kD * kI) / (kB * tokens * kI);
    EXPECT_EQ(per_element, std::round(per_element));
    EXPECT_GE(per_element, 2);
    EXPECT_LE(per_element, 9);
    // Weights once; x twice, both halves written, silu and the product read and write, then down.
    EXPECT_EQ(cost.bytes, 4 * (3 * kD * kI + kB * tokens * (3 * kD + 8 * kI)));
  }
}

TEST(CostCounts, ALayerIsItsPartsAndAModelItsLayers) {
  for (const CostPhase phase : {CostPhase::prefill, CostPhase::decode})
    for (const AttentionForm form : {AttentionForm::plain, AttentionForm::fused}) {
      const double tokens = phase == CostPhase::decode ? 1 : kL;
      const Cost attention = total_of(work_of(CostOp::self_attention, phase, form));
      const Cost layer = total_of(work_of(CostOp::layer, phase, form));
      const Cost model = total_of(work_of(CostOp::model, phase, form));
      CostWorkload core = work_of(CostOp::attention, phase, form);
      core.causal = phase == CostPhase::prefill;
      EXPECT_EQ(attention.macs, 4 * kB * tokens * kD * kD + total_of(core).macs);
      EXPECT_EQ(layer.macs, attention.macs + total_of(work_of(CostOp::mlp, phase)).macs);
      EXPECT_GT(layer.bytes, attention.bytes + total_of(work_of(CostOp::mlp, phase)).bytes)
          << "norms and residuals move bytes, too";
      EXPECT_EQ(model.macs, 2 * layer.macs + kB * tokens * kD * kV);
      const CountedWork whole = count_work(work_of(CostOp::layer, phase, form));
      EXPECT_LT(whole.product_bytes, whole.total.bytes);
      EXPECT_GT(whole.product_bytes, 4 * (4 * kD * kD + 3 * kD * kI)) << "all weights are read";
    }
}

// With fp32 parameters and fp32 activations, prefill is the forward pass that `ridgeline model`
// runs.
TEST(CostCounts, PrefillIsTheForwardPassOfTheTransformerStudy) {
  const Graph forward = training_graph(kModel, {.scenario = Scenario::forward});
  const Cost studied = stage_cost(forward, forward.stages()[0]);
  const Cost counted = total_of(work_of(CostOp::model, CostPhase::prefill));
  EXPECT_EQ(counted.macs, studied.macs);
  EXPECT_EQ(counted.flops, studied.flops);
  EXPECT_EQ(counted.bytes, studied.bytes);
  const Cost half =
      total_of(work_of(CostOp::model, CostPhase::prefill, AttentionForm::plain, DType::bf16));
  EXPECT_EQ(half.macs, studied.macs);
  EXPECT_LT(half.bytes, 0.75 * studied.bytes);
}

TEST(CostCounts, TrainingCountsBackwardAndOptimizer) {
  const double forward = total_of(work_of(CostOp::model, CostPhase::prefill)).macs;
  const Cost both = total_of(work_of(CostOp::model, CostPhase::fwd_bwd));
  const Cost step = total_of(work_of(CostOp::model, CostPhase::full_step));
  EXPECT_EQ(both.macs, 3 * forward) << "the gradient of each product takes two";
  EXPECT_EQ(step.macs, both.macs);
  EXPECT_GT(step.bytes, both.bytes);
}

class CostRows : public ::testing::Test {
 protected:
  std::vector<Record> run(const CostMatrix& matrix, const std::vector<std::string>& gpus,
                          const std::optional<Roofline>& measured = std::nullopt) {
    std::vector<Record> records;
    for (const CostRow& row : cost_rows(expand_matrix(matrix), data_sheets_of(gpus), measured))
      records.push_back(study_.run(row, study_.describe(row, {})).value());
    return records;
  }
  static double number(const Record& record, const char* key) {
    return (*record.metrics)[key].get<double>();
  }

 private:
  CpuDevice device_{{.threads = 1, .ledger = {.budget = Bytes{1 << 20}}}};
  CostStudy study_{device_, {}};
};

// 4096 cubed in bf16 on an A100: 137.4 GFLOP over 312 TFLOP/s; gemv: 33.6 MB over 2039 GB/s.
TEST_F(CostRows, SayTheBoundAndTheLeastTime) {
  const std::vector<Record> records = run(
      {.ops = {CostOp::gemm, CostOp::gemv}, .phases = {}, .dtypes = {DType::bf16}, .sizes = {4096}},
      {"A100"});
  ASSERT_EQ(records.size(), 2u);
  const double n = 4096;
  EXPECT_EQ(text_of(*records[0].metrics, "bound"), "compute");
  EXPECT_NEAR(number(records[0], "least_ms"), 2e3 * n * n * n / 312e12, 1e-9);
  EXPECT_NEAR(number(records[0], "intensity"), n / 3, 1e-6);
  EXPECT_NEAR(number(records[0], "ridge"), 312e3 / 2039, 1e-6);
  EXPECT_EQ(text_of(*records[1].metrics, "bound"), "memory");
  EXPECT_NEAR(number(records[1], "least_ms"), 1e3 * 2 * (n * n + 2 * n) / 2039e9, 1e-9);
  EXPECT_NEAR(number(records[1], "attainable_gflops_per_s"), 2039 * number(records[1], "intensity"),
              1e-6);
}

TEST_F(CostRows, NodesOneAfterTheOtherTakeNoLessThanAllAtOnce) {
  const std::vector<Record> records = run(
      {.ops = {CostOp::layer}, .dtypes = {DType::bf16}, .models = {transformer_config("small")}},
      {"H100"});
  ASSERT_EQ(records.size(), 4u);
  for (const Record& record : records)
    EXPECT_GE(number(record, "node_by_node_ms"), number(record, "least_ms"));
}

TEST_F(CostRows, AGpuWithoutTheDtypeIsUnsupportedAndSaysSo) {
  const std::vector<Record> records =
      run({.ops = {CostOp::gemm}, .phases = {}, .dtypes = {DType::bf16}, .sizes = {64}},
          {"T4", "A100"});
  EXPECT_EQ(records[0].status, Status::unsupported);
  EXPECT_HAS(records[0].error, "data sheet of T4 has no bf16 peak");
  EXPECT_EQ(records[1].status, Status::ok);
  const Table times = cost_times(records);
  ASSERT_EQ(times.columns.size(), 5u);
  EXPECT_EQ(times.rows.at(0)[3], "unsupported");
}

TEST_F(CostRows, NothingIsSaidOfTheContextOnADeviceWithoutTheDtype) {
  std::string notes;
  for (const std::string& note : cost_notes(run({.ops = {CostOp::model},
                                 .phases = {CostPhase::decode},
                                 .dtypes = {DType::bf16},
                                 .models = {transformer_config("small")}},
                                                {"T4", "A100"})))
    notes += note + '\n';
  EXPECT_HAS(notes, "A100 SXM 80 GB has room for at most ");
  EXPECT_LACKS(notes, "T4 has room");
}

// The first figure of a report: rows measured.
std::string report_figure(const std::vector<Record>& records) {
  return make_report({.records = records}).figures.at(0).value;
}

TEST_F(CostRows, PeopleReadDataSheetsAndPrefillBesideDecode) {
  const std::vector<Record> records =
      run({.ops = {CostOp::gemm, CostOp::layer}, .models = {transformer_config("small")}},
          {"A100", "H100"});
  std::string notes;
  for (const std::string& note : cost_notes(records)) notes += note + '\n';
  EXPECT_HAS(notes,
             "A100 SXM 80 GB, H100 SXM: dense peaks and bandwidth of the data sheets, not "
             "measured");
  EXPECT_HAS(notes,
             "; on H100 SXM they are bounded by compute and by memory, and the least time of a "
             "token is ");
  EXPECT_EQ(report_figure(records), "0") << "nothing of it was measured";
  EXPECT_EQ(cost_csv(records).rows.size(), records.size());
  EXPECT_EQ(cost_counts(records).rows.size(), records.size() / 2);
  const ReportDocument report = make_report({.records = records, .sections = {cost_section}});
  const auto section = std::ranges::find(report.sections, "cost", &ReportSection::id);
  ASSERT_NE(section, report.sections.end());
  ASSERT_EQ(section->views.size(), 1u);
  const Chart& chart = section->views[0].charts.at(0);
  ASSERT_EQ(chart.series.size(), 2u) << "a roof per device";
  EXPECT_TRUE(std::ranges::any_of(chart.series[0].points, [](const ChartPoint& point) {
    return point.text.starts_with("layer decode, small");
  }));
}

TEST_F(CostRows, ReportsSayWhereTheCeilingsComeFrom) {
  Roofline measured;
  measured.title = "this machine";
  measured.compute.push_back({.dtype = "fp32", .probe = "fma", .rate = 1e11});
  measured.memory.push_back({.level = "memory", .probe = "copy", .rate = 1e10});
  const auto words_of = [&](const std::vector<std::string>& gpus,
                            const std::optional<Roofline>& roof) {
    const ReportInput input{
        .records = run({.ops = {CostOp::gemm}, .phases = {}, .sizes = {64}}, gpus, roof)};
    const ReportSection section = cost_section(report_context(input));
    return section.views.at(0).charts.at(0).title + "; " + section.certainty.why;
  };
  EXPECT_EQ(words_of({"A100"}, std::nullopt),
            "Roofs: fp32 (data sheets); By data sheets; nothing was run there.");
  EXPECT_EQ(words_of({"A100"}, measured),
            "Roofs: fp32 (data sheets and measured ceilings); By data sheets and measured "
            "ceilings; nothing was run there.");
  EXPECT_EQ(words_of({}, measured),
            "Roofs: fp32 (measured ceilings); By measured ceilings; nothing was run there.");
}

TransformerConfig small_with_layers(int64_t layers) {
  TransformerConfig config = transformer_config("small");
  config.name = "custom-small";
  config.layers = layers;
  return config;
}

TEST_F(CostRows, ModelsOfOneNameAreToldApartByTheirSizes) {
  const CostMatrix matrix{.ops = {CostOp::model},
                          .phases = {CostPhase::prefill, CostPhase::decode},
                          .models = {small_with_layers(2), small_with_layers(4)}};
  const std::vector<Record> records = run(matrix, {"A100"});
  const Table counts = cost_counts(records), times = cost_times(records);
  ASSERT_EQ(counts.rows.size(), records.size());
  ASSERT_EQ(times.rows.size(), records.size());
  EXPECT_EQ(counts.rows[0].at(0).substr(0, 33), "model prefill, custom-small, cont");
  std::set<std::string> names;
  for (const auto& row : times.rows) names.insert(row[0]);
  EXPECT_EQ(names.size(), records.size());
  EXPECT_TRUE(counts.rows[0][0].ends_with(", layers 2")) << counts.rows[0][0];
  std::string notes;
  for (const std::string& note : cost_notes(records)) notes += note + '\n';
  EXPECT_HAS(notes, "custom-small, layers 4 fp32: a token adds");
  EXPECT_HAS(notes, "layers 4, fp32: prefill does");
  const ReportInput input{.records = records};
  EXPECT_LACKS(cost_section(report_context(input)).answer, "and ") << "one work on one device";
}

TEST_F(CostRows, CeilingsOfOtherThreadsAreOtherColumns) {
  Roofline measured;
  measured.title = "this machine";
  measured.compute.push_back({.dtype = "fp32", .probe = "fma", .rate = 1e11});
  measured.memory.push_back({.level = "memory", .probe = "copy", .rate = 1e10});
  std::vector<Record> records =
      run({.ops = {CostOp::gemm}, .phases = {}, .sizes = {64}}, {"A100"}, measured);
  measured.compute[0].rate = 5e10;
  for (Record& record :
       run({.ops = {CostOp::gemm}, .phases = {}, .sizes = {64}}, {"A100"}, measured)) {
    record.settings["threads"] = 7;
    records.push_back(std::move(record));
  }
  const Table times = cost_times(records);
  ASSERT_EQ(times.columns.size(), 6u) << "the data sheet is the same";
  EXPECT_EQ(times.columns[3], "A100 SXM 80 GB");
  EXPECT_EQ(times.columns[5], "this machine, measured, 7 threads");
  EXPECT_NE(times.rows.at(0)[4], times.rows[0][5]);
}

TEST(CostMatrix, RefusesAPhaseThatNothingHasAndAGpuNamedTwice) {
  EXPECT_THROW(
      expand_matrix({.ops = {CostOp::layer}, .phases = {CostPhase::full_step}, .models = {kModel}}),
      Error);
  EXPECT_THROW(data_sheets_of({"A100", "A100-SXM-80GB"}), Error);
}

}  // namespace
}  // namespace ridgeline::cost_study_test
