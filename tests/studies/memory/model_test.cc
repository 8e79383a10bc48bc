// Accounts of whole models: they add up to what runs take, and name what is known beforehand.
#include "studies/memory/model.h"

#include <gtest/gtest.h>

#include "runtime/cpu_device.h"
#include "studies/memory/model_analysis.h"
#include "studies/model/inputs.h"
#include "support/expect.h"
#include "support/models.h"
#include "support/tiny_transformer.h"

namespace ridgeline::memory_study_test {
namespace {

constexpr Bytes kPlenty{64 << 20};

template <class Check>
void for_every_row(const Check& check) {
  CpuDevice device({.threads = 1, .ledger = {.budget = kPlenty}});
  for (const ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed})
    for (const ModeInfo& mode : modes())
      for (const ScenarioInfo& scenario : kModelScenarios) {
        const ModelWorkload workload{testing::tiny_transformer(), precision, mode.mode};
        SCOPED_TRACE(label(workload) + " " + std::string(scenario.name));
        check(model_memory(testing::model_executable(workload, scenario.scenario, device)),
              workload, scenario.scenario, device);
      }
}

TEST(ModelMemory, AddsUpToWhatARunTakes) {
  for_every_row([](const ModelMemory& memory, const ModelWorkload& workload, Scenario scenario,
                   CpuDevice& device) {
    device.ledger().start_over();
    Executable executable = testing::model_executable(workload, scenario, device);
    EXPECT_EQ(memory.peak(), executable.predicted_peak());
    executable.prepare();
    ModelInputs(device, {}).fill(executable, workload.config);
    executable.run();
    EXPECT_EQ(memory.peak(), device.ledger().peak());
  });
}

TEST(ModelMemory, CountsParametersMomentsAndGradients) {
  for_every_row([](const ModelMemory& memory, const ModelWorkload& workload, Scenario scenario,
                   CpuDevice&) {
    const int64_t parameters = parameter_count(workload.config);
    const bool has_optimizer = scenario == Scenario::full_step;
    const bool is_compiled = info(workload.mode).fuse;
    const bool is_mixed = workload.precision == ModelPrecision::mixed;
    // Without an optimizer, a compiled model keeps most of its parameters in 16 bits only.
    const bool is_narrowed = is_compiled && is_mixed && !has_optimizer;
    if (!is_narrowed) {
      EXPECT_EQ(memory.at_begin[MemoryKind::parameters].count, 4 * parameters);
    }
    EXPECT_EQ(memory.at_begin[MemoryKind::optimizer_state].count,
              has_optimizer ? 8 * parameters + 4 * kAdamWScalars : 0);
    EXPECT_EQ(memory.at_begin[MemoryKind::copies].count > 0,
              is_compiled && is_mixed && has_optimizer);
    // Updates of a compiled model run as soon as they can, and nothing is left.
    const int64_t left = memory.after_backward[MemoryKind::gradients].count;
    const bool keeps = scenario == Scenario::forward_backward || (has_optimizer && !is_compiled);
    EXPECT_EQ(left, keeps ? 4 * parameters : 0);
    EXPECT_EQ(memory.before_backward[MemoryKind::gradients].count, 0);
    EXPECT_EQ(memory.before_backward[MemoryKind::activation_gradients].count, 0);
    EXPECT_GT(memory.saved().count, 0);
  });
}

// In a full step of vanilla mixed precision the weights are cast in every step: these are copies.
TEST(ModelMemory, CastsOfParametersAreNoActivations) {
  CpuDevice device({.threads = 1, .ledger = {.budget = kPlenty}});
  const auto saved = [&](int64_t context_length) {
    TransformerConfig config = testing::tiny_transformer();
    config.context_length = context_length;
    return model_memory(testing::model_executable({config, ModelPrecision::mixed, Mode::vanilla},
                                                  Scenario::full_step, device));
  };
  const ModelMemory one = saved(16), two = saved(32);
  EXPECT_EQ(one.before_backward[MemoryKind::copies], two.before_backward[MemoryKind::copies]);
  EXPECT_GT(one.before_backward[MemoryKind::copies].count, 0);
  EXPECT_GE(two.saved().count, 2 * one.saved().count - 1024) << "nothing constant is in it";
}

std::string analysis_within(Bytes budget, Scenario scenario = Scenario::full_step) {
  CpuDevice device({.threads = 1, .ledger = {.budget = budget}});
  std::vector<ModelMemoryRow> rows;
  for (const ModeInfo& mode : modes())
    rows.push_back(predict_memory({testing::tiny_transformer(), ModelPrecision::fp32, mode.mode},
                                  scenario, device, {}));
  return model_memory_analysis(rows, device, {});
}

TEST(ModelMemory, AnalysisSaysWhatFitsAndWhatWouldChangeIt) {
  const std::string text = analysis_within(kPlenty);
  for (const char* part : {"Memory of tiny", "vanilla, full-step", "compiled, full-step",
                           "parameters", "optimizer state", "after backward",
                           "Fits: ", "Growth with the context length", "grows as C^", "recomputed"})
    EXPECT_HAS(text, part) << part << '\n' << text;
  EXPECT_LACKS(text, "Does not fit");
  const std::string small = analysis_within(Bytes{100'000});
  EXPECT_HAS(small, "Does not fit: the predicted peak of ");
  EXPECT_HAS(small, "above the budget of 97.7 KiB");
}

// A budget between the two makes a compiled model compute results again, and the account follows.
TEST(ModelMemory, FollowsThePlanThatIsFittedToTheBudget) {
  const auto within = [](Bytes budget) {
    CpuDevice device({.threads = 1, .ledger = {.budget = budget}});
    return predict_memory({testing::tiny_transformer(), ModelPrecision::fp32, Mode::compiled},
                          Scenario::full_step, device, {})
        .memory;
  };
  const ModelMemory free = within(kPlenty);
  const ModelMemory tight = within(free.peak() - Bytes{1});
  EXPECT_LT(tight.peak(), free.peak());
  EXPECT_EQ(free.recomputed, 0u);
  EXPECT_GT(tight.recomputed, 0u);
}

TEST(ModelMemory, TableHasTheBytesOfEveryKind) {
  CpuDevice device({.threads = 1, .ledger = {.budget = kPlenty}});
  const ModelMemoryRow row =
      predict_memory({testing::tiny_transformer(), ModelPrecision::mixed, Mode::compiled},
                     Scenario::full_step, device, {});
  const Table table = model_memory_csv({row}, Bytes{1});
  ASSERT_EQ(table.rows.size(), 1u);
  ASSERT_EQ(table.rows[0].size(), table.columns.size());
  int64_t sum = 0;
  std::string peak, fits;
  for (size_t i = 0; i < table.columns.size(); ++i) {
    for (const MemoryKindInfo& kind : memory_kinds())
      if (table.columns[i] == std::string(kind.column) + "_bytes")
        sum += std::stoll(table.rows[0][i]);
    if (table.columns[i] == "predicted_peak_bytes") peak = table.rows[0][i];
    if (table.columns[i] == "fits") fits = table.rows[0][i];
  }
  EXPECT_EQ(std::to_string(sum), peak);
  EXPECT_EQ(fits, "False");
}

}  // namespace
}  // namespace ridgeline::memory_study_test
