// TransformerLM as a graph against plain fp64 loops: logits, loss, gradients, optimizer, training.
#include "models/transformer_lm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "cost/memory.h"
#include "models/transformer_oracle.h"
#include "support/gpu.h"
#include "support/run_eager.h"

namespace ridgeline {
namespace {

using testing::AdamWOracle;
using testing::Doubles;
using testing::NamedDoubles;
using testing::OracleResult;
using testing::TransformerOracle;

TransformerConfig tiny_config() {
  return {.name = "tiny",
          .d_model = 24,
          .d_ff = 40,
          .layers = 2,
          .heads = 3,
          .vocabulary = 19,
          .batch_size = 2,
          .context_length = 11};
}

NamedDoubles beginning(const TransformerConfig& config, uint64_t seed) {
  NamedDoubles weights;
  for (const Parameter& parameter : transformer_parameters(config)) {
    const std::vector<float> values = beginning_of(parameter, seed);
    Doubles& to = weights[parameter.name];
    to.assign(values.begin(), values.end());
    // Norms that differ from 1, so that a forgotten one shows.
    for (size_t i = 0; i < to.size() && parameter.shape.rank() == 1; ++i)
      to[i] = static_cast<float>(1 + 0.25 * std::sin(static_cast<double>(i)));
  }
  return weights;
}

std::vector<int> some_tokens(const TransformerConfig& config, int factor) {
  std::vector<int> tokens;
  for (int i = 0; i < config.batch_size * config.context_length; ++i)
    tokens.push_back(i * i * factor % static_cast<int>(config.vocabulary));
  return tokens;
}

InterpreterInputs inputs_of(const TransformerConfig& config, const NamedDoubles& weights,
                            const std::vector<int>& tokens, const std::vector<int>& targets) {
  InterpreterInputs inputs(weights.begin(), weights.end());
  const RopeValues rope = rope_values(config.context_length, config.head_dim(), config.rope_theta);
  inputs["rope.cos"].assign(rope.cos.begin(), rope.cos.end());
  inputs["rope.sin"].assign(rope.sin.begin(), rope.sin.end());
  inputs["tokens"].assign(tokens.begin(), tokens.end());
  if (!targets.empty()) inputs["targets"].assign(targets.begin(), targets.end());
  return inputs;
}

void expect_close(const Doubles& got, const Doubles& expected, double tolerance,
                  const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 0;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], tolerance * (largest + 1e-3)) << what << "[" << i << "]";
}

std::unique_ptr<Device> cpu() {
  return std::make_unique<CpuDevice>(CpuOptions{.threads = 3});
}
std::unique_ptr<Device> gpu() {
  return std::make_unique<CudaDevice>();
}

void expect_gradients_of_the_oracle(Device& device, AttentionForm form) {
  const TransformerConfig config = tiny_config();
  const NamedDoubles weights = beginning(config, 1);
  const std::vector<int> tokens = some_tokens(config, 3), targets = some_tokens(config, 5);
  const OracleResult expected = TransformerOracle(config, weights).run(tokens, targets);
  constexpr double kTolerance = 3e-5;  // fp32 through two layers

  const Graph forward = training_graph(config, {.scenario = Scenario::forward, .attention = form});
  const auto logits = testing::run_eager(forward, inputs_of(config, weights, tokens, {}), device);
  expect_close(logits.at("logits"), expected.logits, kTolerance, "logits");

  const Graph graph =
      training_graph(config, {.scenario = Scenario::forward_backward, .attention = form});
  const auto got = testing::run_eager(graph, inputs_of(config, weights, tokens, targets), device);
  EXPECT_NEAR(got.at("loss")[0], expected.loss, 1e-5 * expected.loss);
  for (const auto& [name, gradient] : expected.gradients)
    expect_close(got.at("d_" + name), gradient, kTolerance, name);
}

TEST(TransformerLm, LogitsLossAndGradientsAreTheOracles) {
  for (AttentionForm form : {AttentionForm::plain, AttentionForm::fused})
    expect_gradients_of_the_oracle(*cpu(), form);
}

TEST(TransformerLm, LogitsLossAndGradientsAreTheOraclesOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  for (AttentionForm form : {AttentionForm::plain, AttentionForm::fused})
    expect_gradients_of_the_oracle(*gpu(), form);
}

// The same graph in fp64, where nothing but the maths can differ.
TEST(TransformerLm, InterpretedGradientsAgreeToTheLastDigits) {
  const TransformerConfig config = tiny_config();
  const NamedDoubles weights = beginning(config, 2);
  const std::vector<int> tokens = some_tokens(config, 7), targets = some_tokens(config, 2);
  const OracleResult expected = TransformerOracle(config, weights).run(tokens, targets);
  const Graph graph = training_graph(config, {.scenario = Scenario::forward_backward});
  InterpreterInputs inputs = inputs_of(config, weights, tokens, targets);
  // Tables in fp64, too.
  for (int64_t i = 0; i < config.context_length * config.head_dim() / 2; ++i) {
    const double k = static_cast<double>(i % (config.head_dim() / 2));
    const double angle =
        static_cast<double>(i / (config.head_dim() / 2)) *
        std::pow(config.rope_theta, -2 * k / static_cast<double>(config.head_dim()));
    inputs["rope.cos"][static_cast<size_t>(i)] = std::cos(angle);
    inputs["rope.sin"][static_cast<size_t>(i)] = std::sin(angle);
  }
  const auto values = interpret(graph, inputs);
  for (const Output& output : graph.outputs())
    if (output.name.starts_with("d_"))
      expect_close(values[graph.index(output.value)], expected.gradients.at(output.name.substr(2)),
                   1e-11, output.name);
}

TEST(TransformerLm, ParameterCountsAreThePublishedOnes) {
  const std::map<std::string, int64_t> published = {{"small", 128'625'408},
                                                    {"medium", 423'183'360},
                                                    {"large", 969'411'840},
                                                    {"xl", 1'998'235'200},
                                                    {"2.7B", 3'406'809'600}};
  for (const auto& [name, count] : published)
    EXPECT_EQ(parameter_count(transformer_config(name)), count) << name;
  EXPECT_NEAR(static_cast<double>(parameter_count(transformer_config("10B"))) / 1e9, 12.83, 0.005);
  EXPECT_EQ(transformer_config("2.7B").head_dim(), 80);
  EXPECT_THROW(transformer_config("huge"), Error);
}

TEST(TransformerLm, ParametersHaveTheNamesAndOrderOfTheReference) {
  const std::vector<Parameter> parameters = transformer_parameters(tiny_config());
  std::vector<std::string> names;
  for (const Parameter& parameter : parameters) names.push_back(parameter.name);
  EXPECT_EQ(names.size(), 3 + 2 * 9u);
  EXPECT_EQ(std::vector(names.begin(), names.begin() + 10),
            (std::vector<std::string>{"token_embeddings.weight", "layers.0.attn.q_proj.weight",
                                      "layers.0.attn.k_proj.weight", "layers.0.attn.v_proj.weight",
                                      "layers.0.attn.output_proj.weight", "layers.0.ffn.w1.weight",
                                      "layers.0.ffn.w2.weight", "layers.0.ffn.w3.weight",
                                      "layers.0.ln1.weight", "layers.0.ln2.weight"}));
  EXPECT_EQ(names[19], "ln_final.weight");
  EXPECT_EQ(names[20], "lm_head.weight");
}

TEST(TransformerLm, BeginningsHaveTheirSpread) {
  const Parameter weight{"w", {300, 500}, Parameter::Beginning::linear};
  const std::vector<float> values = beginning_of(weight, 5);
  const double deviation = std::sqrt(2.0 / 800);
  double squares = 0, largest = 0;
  for (float value : values) {
    squares += static_cast<double>(value) * value;
    largest = std::max(largest, std::abs(static_cast<double>(value)));
  }
  // Cutting a normal at 3 deviations leaves 0.9866 of the deviation.
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(values.size())), 0.9866 * deviation,
              0.01 * deviation);
  EXPECT_LE(largest, 3 * deviation * (1 + 1e-6));
  EXPECT_GT(largest, 2.9 * deviation);
  EXPECT_EQ(values, beginning_of(weight, 5));
  EXPECT_NE(values, beginning_of(weight, 6));
  EXPECT_EQ(beginning_of({"n", {2}, Parameter::Beginning::ones}, 1), (std::vector<float>{1, 1}));
}

TEST(TransformerLm, SizesThatMakeNoModelAreRefused) {
  TransformerConfig config = tiny_config();
  config.heads = 5;
  EXPECT_THROW(transformer_parameters(config), Error);
  config = tiny_config();
  config.layers = 0;
  EXPECT_THROW(training_graph(config, {}), Error);
}

TEST(TransformerLm, TheMaskIsComputedOnceForAllLayers) {
  const Graph graph = training_graph(tiny_config(), {.scenario = Scenario::forward_backward});
  const auto masks = std::count_if(graph.nodes().begin(), graph.nodes().end(),
                                   [](const Node& node) { return node.op == Op::less_equal; });
  EXPECT_EQ(masks, 1);
}

// A gradient that lies turned would be copied in every step.
TEST(TransformerLm, GradientsOfWeightsLieAsTheWeightsDo) {
  const Graph graph = training_graph(tiny_config(), {.scenario = Scenario::forward_backward});
  const std::vector<Layout> places = layouts(graph);
  for (const Output& output : graph.outputs()) {
    if (!output.name.starts_with("d_")) continue;
    EXPECT_EQ(places[graph.index(output.value)].strides,
              contiguous_strides(graph.type(output.value).shape))
        << output.name;
  }
}

TEST(TransformerLm, PredictedMemoryOfAStepIsTheLedgers) {
  CpuDevice device({.threads = 2});
  for (AttentionForm form : {AttentionForm::plain, AttentionForm::fused}) {
    const Graph graph =
        training_graph(tiny_config(), {.attention = form, .optimizer = {.max_norm = 1}});
    const Schedule schedule = eager_schedule(graph);
    const MemoryProfile profile = memory(graph, schedule);
    device.ledger().start_over();
    EagerExecutor executor(graph, schedule, device);
    EXPECT_EQ(device.ledger().live(), profile.inputs);
    for (Value value : graph.inputs())
      testing::upload(device, executor.input(graph.node(value).name),
                      Doubles(static_cast<size_t>(element_count(graph.type(value).shape)), 1));
    for (size_t stage = 0; stage < 3; ++stage) {
      executor.run_stage(stage);
      EXPECT_EQ(device.ledger().live(), profile.stage_end[stage]) << stage;
    }
    EXPECT_EQ(device.ledger().peak(), profile.peak);
  }
}

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

struct TrainingCase {
  AdamWOptions optimizer;
  CosineSchedule schedule;
  int64_t steps;
  AttentionForm form = AttentionForm::plain;
};

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

Trained train(const TrainingCase& wanted, Device& device) {
  TransformerConfig config = text_config();
  const Text text(config);
  const Graph graph =
      training_graph(config, {.attention = wanted.form, .optimizer = wanted.optimizer});
  const Schedule schedule = eager_schedule(graph);
  EagerExecutor executor(graph, schedule, device);
  const InterpreterInputs first =
      inputs_of(config, beginning(config, 9), text.piece(0, 0), text.piece(0, 1));
  for (Value value : graph.inputs()) {
    const std::string& name = graph.node(value).name;
    const Doubles zeros(static_cast<size_t>(element_count(graph.type(value).shape)), 0);
    testing::upload(device, executor.input(name), first.contains(name) ? first.at(name) : zeros);
  }
  Trained result;
  for (int64_t step = 1; step <= wanted.steps; ++step) {
    const auto put = [&](const char* name, const auto& values) {
      testing::upload(device, executor.input(name), Doubles(values.begin(), values.end()));
    };
    put("tokens", text.piece(step, 0));
    put("targets", text.piece(step, 1));
    put("optimizer.scalars",
        adamw_scalars(wanted.optimizer, step, wanted.schedule.learning_rate(step)));
    executor.run_all();
    result.losses.push_back(testing::elements(device, executor.output("loss"))[0]);
  }
  for (const Parameter& parameter : transformer_parameters(config)) {
    result.weights[parameter.name] = testing::elements(device, executor.output(parameter.name));
    EXPECT_EQ(executor.output(parameter.name).data, executor.input(parameter.name).data);
  }
  return result;
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

constexpr CosineSchedule kSchedule{
    .peak = 1e-2, .floor = 1e-3, .warmup_steps = 10, .decay_steps = 150};

void expect_steps_of_the_formulas(Device& device) {
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
      const Trained got = train(wanted, device);
      const Trained expected = train_in_fp64(wanted);
      for (const auto& [name, values] : expected.weights)
        expect_close(got.weights.at(name), values, 2e-5, name);
    }
}

TEST(AdamW, BothVariantsTakeTheStepsOfTheirFormulas) {
  expect_steps_of_the_formulas(*cpu());
}
TEST(AdamW, BothVariantsTakeTheStepsOfTheirFormulasOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  expect_steps_of_the_formulas(*gpu());
}

void expect_loss_of_the_oracle(Device& device) {
  for (AttentionForm form : {AttentionForm::plain, AttentionForm::fused}) {
    const TrainingCase wanted{
        .optimizer = {.max_norm = 1}, .schedule = kSchedule, .steps = 200, .form = form};
    const Trained got = train(wanted, device);
    const Trained expected = train_in_fp64(wanted);
    for (size_t step = 0; step < 200; ++step)
      ASSERT_NEAR(got.losses[step], expected.losses[step], 2e-3 * expected.losses[step]) << step;
    EXPECT_GT(got.losses.front(), 3.0);
    EXPECT_LT(got.losses.back(), 1.5);
  }
}

TEST(Training, TwoHundredStepsLowerTheLossAsTheOracleDoes) {
  expect_loss_of_the_oracle(*cpu());
}
TEST(Training, TwoHundredStepsLowerTheLossAsTheOracleDoesOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  expect_loss_of_the_oracle(*gpu());
}

void expect_equal_runs(Device& device, Device& other) {
  const TrainingCase wanted{.optimizer = {.max_norm = 1}, .schedule = kSchedule, .steps = 20};
  const Trained first = train(wanted, device);
  const Trained second = train(wanted, other);
  EXPECT_EQ(first.losses, second.losses);
  EXPECT_EQ(first.weights, second.weights);
}

TEST(Training, IsTheSameBitByBitWhateverTheThreads) {
  CpuDevice one({.threads = 1});
  expect_equal_runs(*cpu(), one);
}
TEST(Training, IsTheSameBitByBitOnAGpuThatIsToldTo) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice first({.deterministic = true}), second({.deterministic = true});
  expect_equal_runs(first, second);
}

TEST(CosineSchedule, WarmsUpDecaysAndStays) {
  const CosineSchedule schedule{.peak = 1, .floor = 0.1, .warmup_steps = 4, .decay_steps = 12};
  EXPECT_DOUBLE_EQ(schedule.learning_rate(0), 0);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1), 0.25);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(4), 1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(8), 0.55);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(12), 0.1);
  EXPECT_DOUBLE_EQ(schedule.learning_rate(1000), 0.1);
}

TEST(AdamW, OptionsOutsideTheirRangeAreRefused) {
  for (const AdamWOptions& options :
       {AdamWOptions{.beta1 = 1}, AdamWOptions{.beta2 = -0.1}, AdamWOptions{.epsilon = 0},
        AdamWOptions{.weight_decay = -1}, AdamWOptions{.max_norm = -1}})
    EXPECT_THROW(training_graph(tiny_config(), {.optimizer = options}), Error);
  EXPECT_EQ(parse_adamw_variant("pytorch"), AdamWVariant::pytorch);
  EXPECT_THROW(parse_adamw_variant("adam"), Error);
}

}  // namespace
}  // namespace ridgeline
