// Training step by step against the same training in plain fp64: eager and compiled, clipped or
// not, and the same bits from run to run.
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "base/error.h"
#include "measure/test_support.h"
#include "models/transformer_inputs.h"
#include "studies/model/inputs.h"
#include "support/gpu.h"
#include "support/models.h"

namespace ridgeline {
namespace {

using testing::AdamWOracle;
using testing::beginning;
using testing::cpu;
using testing::Doubles;
using testing::expect_close;
using testing::gpu;
using testing::inputs_of;
using testing::NamedDoubles;
using testing::OracleResult;
using testing::TransformerOracle;

// A text, in batches of its pieces, with the text one place further on as targets.
class Text {
 public:
  explicit Text(TransformerConfig& config) {
    static constexpr std::string_view kText =
        "the ridge of a roofline is where a program stops waiting for memory and starts to "
        "wait for arithmetic; left of it every byte counts, right of it every product does. a "
        "transformer has both kinds: its matrix products stand high on the right, its norms "
        "and its softmax lie low on the left. ";
    std::string letters(kText);
    std::sort(letters.begin(), letters.end());
    letters.erase(std::unique(letters.begin(), letters.end()), letters.end());
    for (char c : kText) text_.push_back(static_cast<int>(letters.find(c)));
    config.vocabulary = static_cast<int64_t>(letters.size());
    config_ = config;
  }
  std::vector<int> piece(int64_t step, size_t shift) const {
    std::vector<int> tokens;
    for (int64_t row = 0; row < config_.batch_size; ++row) {
      const auto begin = static_cast<size_t>((step * config_.batch_size + row) * 37);
      for (size_t i = 0; i < static_cast<size_t>(config_.context_length); ++i)
        tokens.push_back(text_[(begin + i + shift) % text_.size()]);
    }
    return tokens;
  }

 private:
  std::vector<int> text_;
  TransformerConfig config_;
};

struct Trained {
  Doubles losses;
  NamedDoubles weights;
};

// Linear from 0 to `peak` over warmup_steps, then half a cosine down to `floor` at decay_steps,
// then `floor`.
struct CosineSchedule {
  double peak = 1e-3;
  double floor = 0;
  int64_t warmup_steps = 0;
  int64_t decay_steps = 1;

  double learning_rate(int64_t step) const {
    if (step < warmup_steps)
      return peak * static_cast<double>(step) / static_cast<double>(warmup_steps);
    if (step >= decay_steps) return floor;
    const double progress =
        static_cast<double>(step - warmup_steps) / static_cast<double>(decay_steps - warmup_steps);
    return floor + 0.5 * (1 + std::cos(progress * std::numbers::pi)) * (peak - floor);
  }
};

struct TrainingCase {
  AdamWOptions optimizer;
  CosineSchedule schedule;
  int64_t steps;
};

struct Way {  // of running it
  AttentionForm form = AttentionForm::plain;
  std::optional<ModelPrecision> compiled = {};  // by the passes of the study; none: eager, fp32
};
constexpr Way kPlain{AttentionForm::plain}, kFused{AttentionForm::fused};
constexpr Way kCompiled{.compiled = ModelPrecision::fp32},
    kMixed{.compiled = ModelPrecision::mixed};

TransformerConfig text_config() {
  return {.name = "text",
          .d_model = 16,
          .d_ff = 32,
          .layers = 2,
          .heads = 2,
          .vocabulary = 1,
          .batch_size = 4,
          .context_length = 16};
}

// From inputs that are filled but for those of a step.
template <class Executor>
Trained take_steps(const TrainingCase& wanted, const TransformerConfig& config, const Text& text,
                   Executor& executor, Device& device) {
  Trained result;
  for (int64_t step = 1; step <= wanted.steps; ++step) {
    const auto put = [&](const char* name, const auto& values) {
      testing::upload(device, executor.input(name), Doubles(values.begin(), values.end()));
    };
    put("tokens", text.piece(step, 0));
    put("targets", text.piece(step, 1));
    put("optimizer.scalars",
        adamw_scalars(wanted.optimizer, step, wanted.schedule.learning_rate(step)));
    if constexpr (requires { executor.run_all(); })
      executor.run_all();
    else
      executor.run();
    result.losses.push_back(testing::elements(device, executor.output("loss"))[0]);
  }
  for (const Parameter& parameter : transformer_parameters(config)) {
    result.weights[parameter.name] = testing::elements(device, executor.output(parameter.name));
    EXPECT_EQ(executor.output(parameter.name).data, executor.input(parameter.name).data);
  }
  return result;
}

Trained train_compiled(const TrainingCase& wanted, ModelPrecision precision,
                       const TransformerConfig& config, const Text& text, Device& device) {
  Executable executable = testing::model_executable({config, precision, Mode::compiled},
                                                    Scenario::full_step, device, wanted.optimizer);
  executable.prepare();
  EXPECT_EQ(executable.fallback(), "");
  ModelInputs(device, {}).fill(executable, config);
  for (const auto& [name, values] : beginning(config, 9))
    for (const std::string& input : {name, tensor_name(Role::copy, name)})
      if (executable.has_input(input)) testing::upload(device, executable.input(input), values);
  return take_steps(wanted, config, text, executable, device);
}

Trained train(const TrainingCase& wanted, const Way& way, Device& device) {
  TransformerConfig config = text_config();
  const Text text(config);
  if (way.compiled) return train_compiled(wanted, *way.compiled, config, text, device);
  const Graph graph =
      training_graph(config, {.attention = way.form, .optimizer = wanted.optimizer});
  const Schedule schedule = eager_schedule(graph);
  EagerExecutor executor(graph, schedule, device);
  const InterpreterInputs first =
      inputs_of(config, beginning(config, 9), text.piece(0, 0), text.piece(0, 1));
  for (Value value : graph.inputs()) {
    const std::string& name = graph.node(value).name;
    const Doubles zeros(static_cast<size_t>(element_count(graph.type(value).shape)), 0);
    testing::upload(device, executor.input(name), first.contains(name) ? first.at(name) : zeros);
  }
  return take_steps(wanted, config, text, executor, device);
}

Trained train_in_fp64(const TrainingCase& wanted) {
  TransformerConfig config = text_config();
  const Text text(config);
  Trained result;
  result.weights = beginning(config, 9);
  AdamWOracle optimizer{.options = wanted.optimizer};
  for (int64_t step = 1; step <= wanted.steps; ++step) {
    const OracleResult now =
        TransformerOracle(config, result.weights).run(text.piece(step, 0), text.piece(step, 1));
    result.losses.push_back(now.loss);
    optimizer.step(result.weights, now.gradients, step, wanted.schedule.learning_rate(step));
  }
  return result;
}

// Clipped in its first steps only.
constexpr TrainingCase kTraining{
    .optimizer = {.max_norm = 1},
    .schedule = {.peak = 1e-2, .floor = 1e-3, .warmup_steps = 10, .decay_steps = 150},
    .steps = 200};

void expect_steps_of_the_formulas(const Way& way, Device& device) {
  for (AdamWVariant variant : {AdamWVariant::cs336, AdamWVariant::pytorch})
    for (double max_norm : {0.0, 0.5}) {
      // A large eps and decay, so that their places in the formulas show.
      const TrainingCase wanted{.optimizer = {.beta2 = 0.98,
                                              .epsilon = 1e-3,
                                              .weight_decay = 0.3,
                                              .variant = variant,
                                              .max_norm = max_norm},
                                .schedule = {.peak = 1e-2, .decay_steps = 1000},
                                .steps = 3};
      const Trained got = train(wanted, way, device);
      const Trained expected = train_in_fp64(wanted);
      for (const auto& [name, values] : expected.weights)
        expect_close(got.weights.at(name), values, 2e-5, name);
    }
}

TEST(AdamW, BothVariantsTakeTheStepsOfTheirFormulas) {
  for (const Way& way : {kPlain, kCompiled}) expect_steps_of_the_formulas(way, *cpu());
}
TEST(AdamW, BothVariantsTakeTheStepsOfTheirFormulasOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  for (const Way& way : {kPlain, kCompiled}) expect_steps_of_the_formulas(way, *gpu());
}

// A large eps, without which AdamW's first step is the same for gradients of any size.
void expect_clipping_to_show(Device& device) {
  const auto one_step = [&](const Way& way, double max_norm) {
    return train({.optimizer = {.epsilon = 1e-2, .max_norm = max_norm},
                  .schedule = {.peak = 1e-2, .decay_steps = 1000},
                  .steps = 1},
                 way, device)
        .weights;
  };
  const NamedDoubles eager = one_step(kPlain, 0.1);
  const NamedDoubles compiled = one_step(kCompiled, 0.1), free = one_step(kCompiled, 0);
  for (const auto& [name, values] : eager) {
    expect_close(compiled.at(name), values, 1e-6, name);
    double largest = 0;
    for (size_t i = 0; i < values.size(); ++i)
      largest = std::max(largest, std::abs(free.at(name)[i] - values[i]));
    EXPECT_GT(largest, 1e-4) << name;
  }
}

TEST(Training, AClippedStepIsTheSameCompiledAsEagerAndNotAFreeOne) {
  expect_clipping_to_show(*cpu());
}
TEST(Training, AClippedStepIsTheSameCompiledAsEagerAndNotAFreeOneOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  expect_clipping_to_show(*gpu());
}

void expect_loss_of_the_oracle(const Way& way, Device& device) {
  const Trained got = train(kTraining, way, device);
  static const Trained expected = train_in_fp64(kTraining);
  const bool is_mixed = way.compiled == ModelPrecision::mixed;
  const double tolerance = is_mixed ? 2 * info(DType::bf16).epsilon : 2e-3;
  for (size_t step = 0; step < expected.losses.size(); ++step)
    ASSERT_NEAR(got.losses[step], expected.losses[step], tolerance * expected.losses[step]) << step;
  EXPECT_GT(got.losses.front(), 3.0);
  EXPECT_LT(got.losses.back(), 1.5);
}

TEST(Training, TwoHundredStepsLowerTheLossAsTheOracleDoes) {
  for (const Way& way : {kPlain, kFused}) expect_loss_of_the_oracle(way, *cpu());
}
TEST(Training, TwoHundredCompiledStepsLowerTheLossAsTheOracleDoes) {
  for (const Way& way : {kCompiled, kMixed}) expect_loss_of_the_oracle(way, *cpu());
}
TEST(Training, TwoHundredStepsLowerTheLossAsTheOracleDoesOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  for (const Way& way : {kPlain, kFused, kCompiled, kMixed}) expect_loss_of_the_oracle(way, *gpu());
}

void expect_equal_runs(Device& device, Device& other) {
  TrainingCase wanted = kTraining;
  wanted.steps = 20;
  for (const Way& way : {kPlain, kCompiled, kMixed}) {
    const Trained first = train(wanted, way, device);
    const Trained second = train(wanted, way, other);
    EXPECT_EQ(first.losses, second.losses);
    EXPECT_EQ(first.weights, second.weights);
  }
}

TEST(Training, IsTheSameBitByBitWhateverTheThreads) {
  const TempDir kernels;  // the second device need not compile them again
  CpuDevice one({.threads = 1, .compiler = {.cache_dir = kernels.path()}});
  CpuDevice three({.threads = 3, .compiler = {.cache_dir = kernels.path()}});
  expect_equal_runs(one, three);
}
TEST(Training, IsTheSameBitByBitOnAGpuThatIsToldTo) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice first({.deterministic = true}), second({.deterministic = true});
  expect_equal_runs(first, second);
}

TEST(AdamW, OptionsOutsideTheirRangeAreRefused) {
  for (const AdamWOptions& options :
       {AdamWOptions{.beta1 = 1}, AdamWOptions{.beta2 = -0.1}, AdamWOptions{.epsilon = 0},
        AdamWOptions{.weight_decay = -1}, AdamWOptions{.max_norm = -1}})
    EXPECT_THROW(training_graph(text_config(), {.optimizer = options}), Error);
  EXPECT_EQ(parse_adamw_variant("pytorch"), AdamWVariant::pytorch);
  EXPECT_THROW(parse_adamw_variant("adam"), Error);
}

}  // namespace
}  // namespace ridgeline
