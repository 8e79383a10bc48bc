// Steps that need less memory: blocks that backward computes again, and batches in parts.
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "base/error.h"
#include "measure/test_support.h"
#include "models/accumulate.h"
#include "models/transformer_inputs.h"
#include "studies/model/inputs.h"
#include "studies/model/loss_scale.h"
#include "support/models.h"

namespace ridgeline {
namespace {

using testing::Doubles;

const TransformerConfig kSmall{.name = "small",
                               .d_model = 32,
                               .d_ff = 48,
                               .layers = 5,
                               .heads = 2,
                               .vocabulary = 61,
                               .batch_size = 4,
                               .context_length = 24};
// Nothing is a multiple of anything.
const TransformerConfig kOdd{.name = "odd",
                             .d_model = 18,
                             .d_ff = 29,
                             .layers = 3,
                             .heads = 3,
                             .vocabulary = 17,
                             .batch_size = 6,
                             .context_length = 11};

Device& host() {
  static const std::unique_ptr<Device> device = testing::cpu();
  return *device;
}

struct Ran {
  std::map<std::string, Doubles> outputs;
  Bytes predicted, peak;
};

Ran run(const ModelWorkload& workload, Scenario scenario, const AdamWOptions& optimizer = {},
        double scale = 1024) {
  Device& device = host();
  device.ledger().start_over();
  Ran ran;
  {
    Executable executable = testing::model_executable(workload, scenario, device, optimizer);
    executable.prepare();
    EXPECT_EQ(executable.fallback(), "");
    ModelInputs inputs(device, {.seed = 7, .loss_scale = scale});
    inputs.fill(executable, workload.config);
    inputs.set_step(executable, 1, optimizer);
    executable.run();
    device.synchronize();
    ran.predicted = executable.predicted_peak();
    ran.peak = device.ledger().peak();
    for (const Output& output : executable.graph().outputs())
      ran.outputs[output.name] = testing::elements(device, executable.output(output.name));
  }
  return ran;
}

void expect_same_bits(const Ran& a, const Ran& b, const std::string& what) {
  ASSERT_EQ(a.outputs.size(), b.outputs.size()) << what;
  for (const auto& [name, values] : a.outputs)
    EXPECT_EQ(values, b.outputs.at(name)) << what << name;
}

void expect_predicted(const Ran& ran, const std::string& what) {
  const auto predicted = static_cast<double>(ran.predicted.count);
  EXPECT_NEAR(static_cast<double>(ran.peak.count), predicted, 0.01 * predicted) << what;
}

constexpr Mode kModes[] = {Mode::vanilla, Mode::fused, Mode::compiled};
constexpr ModelPrecision kPrecisions[] = {ModelPrecision::fp32, ModelPrecision::mixed,
                                          ModelPrecision::mixed_fp16};

TEST(Checkpointing, ChangesNoBitOfLossAndGradients) {
  for (const TransformerConfig& config : {kSmall, kOdd})
    for (const Mode mode : kModes)
      for (const ModelPrecision precision : kPrecisions) {
        ModelWorkload workload{config, precision, mode};
        const Ran whole = run(workload, Scenario::forward_backward);
        for (const int64_t blocks : {int64_t{1}, int64_t{2}, config.layers}) {
          workload.checkpoint_blocks = blocks;
          const Ran again = run(workload, Scenario::forward_backward);
          expect_same_bits(whole, again, label(workload));
          expect_predicted(again, label(workload));
        }
      }
}

TEST(Checkpointing, ChangesNoBitOfAStep) {
  for (const Mode mode : kModes) {
    ModelWorkload workload{kSmall, ModelPrecision::mixed, mode};
    const Ran whole = run(workload, Scenario::full_step, {.max_norm = 0.5});
    workload.checkpoint_blocks = 2;
    const Ran again = run(workload, Scenario::full_step, {.max_norm = 0.5});
    expect_same_bits(whole, again, label(workload));
    expect_predicted(again, label(workload));
  }
}

// The bar of the assignment's xl at a context of 1024, by the account and by multiplications.
TEST(Checkpointing, LeavesAFifthOfWhatIsSavedForAThirdMoreProducts) {
  TransformerConfig xl = transformer_config("xl");
  xl.context_length = 1024;
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    ModelWorkload workload{xl, ModelPrecision::fp32, mode};
    const auto measure = [&](int64_t blocks) {
      workload.checkpoint_blocks = blocks;
      const Executable step =
          testing::model_executable(workload, Scenario::full_step, host(), {}, Bytes{INT64_MAX});
      double macs = 0;
      for (const Cost& stage : step.stage_costs()) macs += stage.macs;
      return std::pair{static_cast<double>(model_memory(step).saved().count), macs};
    };
    const auto [saved, macs] = measure(0);
    const auto [saved_again, macs_again] = measure(1);
    EXPECT_LT(saved_again, 0.2 * saved) << label(workload);
    EXPECT_LT(macs_again, 1.35 * macs) << label(workload);
    EXPECT_GT(macs_again, 1.2 * macs) << "all blocks are computed again";
  }
}

double distance(const Doubles& a, const Doubles& b) {
  double difference = 0, size = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    size += b[i] * b[i];
  }
  return std::sqrt(difference / std::max(size, 1e-30));
}

TEST(Accumulation, GivesTheGradientsOfTheWholeBatch) {
  for (const TransformerConfig& config : {kSmall, kOdd})
    for (const Mode mode : {Mode::vanilla, Mode::compiled})
      for (const ModelPrecision precision : kPrecisions) {
        ModelWorkload workload{config, precision, mode};
        const Ran whole = run(workload, Scenario::forward_backward);
        for (const int64_t parts : {int64_t{2}, config.batch_size}) {
          workload.micro_batches = parts;
          const Ran sum = run(workload, Scenario::forward_backward);
          ASSERT_EQ(sum.outputs.size(), whole.outputs.size());
          for (const auto& [name, values] : whole.outputs)
            EXPECT_LT(distance(sum.outputs.at(name), values),
                      precision == ModelPrecision::fp32 ? 2e-5 : 2e-2)
                << label(workload) << ' ' << name;
          expect_predicted(sum, label(workload));
        }
      }
}

// Scale and clipping see the sum, once.
TEST(Accumulation, TakesOneStepOfTheOptimizer) {
  for (const Mode mode : {Mode::vanilla, Mode::compiled})
    for (const ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed_fp16}) {
      ModelWorkload workload{kSmall, precision, mode};
      const AdamWOptions clipped = optimizer_of(workload, {.max_norm = 0.5});
      const Ran whole = run(workload, Scenario::full_step, clipped);
      workload.micro_batches = 4;
      workload.checkpoint_blocks = 2;
      const Ran sum = run(workload, Scenario::full_step, clipped);
      const double norm = whole.outputs.at("gradient_norm")[0];
      EXPECT_NEAR(sum.outputs.at("gradient_norm")[0], norm, 1e-2 * norm) << label(workload);
      EXPECT_NEAR(sum.outputs.at("loss")[0], whole.outputs.at("loss")[0], 1e-2) << label(workload);
      if (precision == ModelPrecision::mixed_fp16) {
        EXPECT_EQ(sum.outputs.at(kLossScaleInput), whole.outputs.at(kLossScaleInput));
      }
      expect_predicted(sum, label(workload));
    }
}

TEST(Accumulation, KeepsActivationsOfOnePartOnly) {
  TransformerConfig config = kSmall;
  config.context_length = 64;
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    ModelWorkload workload{config, ModelPrecision::fp32, mode};
    const Ran whole = run(workload, Scenario::full_step);
    workload.micro_batches = 4;
    const Ran parts = run(workload, Scenario::full_step);
    EXPECT_LT(parts.peak.count, whole.peak.count * 3 / 5) << label(workload);
  }
}

TEST(Accumulation, RefusesPartsThatAreNotEqual) {
  EXPECT_THROW(training_graph(kSmall, {.micro_batches = 3}), Error);
  EXPECT_THROW(check_micro_batches(4, 0), Error);
}

}  // namespace
}  // namespace ridgeline
