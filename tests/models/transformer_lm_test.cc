// TransformerLM as a graph against plain fp64 loops: logits, loss, gradients, memory.
#include "models/transformer_lm.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

#include "base/error.h"
#include "cost/memory.h"
#include "models/transformer_inputs.h"
#include "support/gpu.h"

namespace ridgeline {
namespace {

using testing::beginning;
using testing::cpu;
using testing::Doubles;
using testing::expect_close;
using testing::gpu;
using testing::inputs_of;
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

std::vector<int> some_tokens(const TransformerConfig& config, int factor) {
  std::vector<int> tokens;
  for (int i = 0; i < config.batch_size * config.context_length; ++i)
    tokens.push_back(i * i * factor % static_cast<int>(config.vocabulary));
  return tokens;
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

// Decoding token by token, each behind the keys and values of those before it.
Doubles decoded_logits(Device& device, AttentionForm form, const TransformerConfig& whole,
                       const NamedDoubles& weights, const std::vector<int>& tokens) {
  const int64_t row = whole.head_dim(), heads = whole.batch_size * whole.heads;
  const auto half = static_cast<size_t>(row / 2);
  NamedDoubles caches;  // [batch * heads, tokens so far, head_dim]
  Doubles logits;
  for (int64_t seen = 1; seen <= whole.context_length; ++seen) {
    TransformerConfig config = whole;
    config.context_length = seen;
    const Graph graph =
        inference_graph(config, {.phase = InferencePhase::decode, .attention = form});
    std::vector<int> newest;
    for (int64_t b = 0; b < whole.batch_size; ++b)
      newest.push_back(tokens[static_cast<size_t>(b * whole.context_length + seen - 1)]);
    InterpreterInputs inputs = inputs_of(config, weights, newest, {});
    for (const char* table : {"rope.cos", "rope.sin"})
      inputs[table].erase(inputs[table].begin(), inputs[table].end() - static_cast<long>(half));
    const auto with_room = [&](const Doubles& before, const Doubles* added) {
      Doubles grown;
      for (int64_t head = 0; head < heads; ++head) {
        for (int64_t i = 0; i < (seen - 1) * row; ++i)
          grown.push_back(before[static_cast<size_t>(head * (seen - 1) * row + i)]);
        for (int64_t i = 0; i < row; ++i)
          grown.push_back(added ? (*added)[static_cast<size_t>(head * row + i)] : 0);
      }
      return grown;
    };
    // A layer's new key is right once the caches of the layers below it are.
    NamedDoubles result;
    for (int64_t run = 0; run <= whole.layers; ++run) {
      for (int64_t layer = 0; layer < whole.layers; ++layer)
        for (const std::string kind : {"key", "value"}) {
          const std::string name = fmt::format("layers.{}.{}", layer, kind);
          inputs[name + "s"] = with_room(caches[name + "s"], run > 0 ? &result.at(name) : nullptr);
        }
      const auto outputs = testing::run_eager(graph, inputs, device);
      result = NamedDoubles(outputs.begin(), outputs.end());
    }
    for (auto& [name, values] : inputs)
      if (name.ends_with(".keys") || name.ends_with(".values")) caches[name] = values;
    logits = result.at("logits");
  }
  return logits;
}

TEST(TransformerLm, DecodingBehindACacheGivesTheLogitsOfTheWholeSequence) {
  TransformerConfig config = tiny_config();
  config.context_length = 4;
  const NamedDoubles weights = beginning(config, 1);
  const std::vector<int> tokens = some_tokens(config, 3);
  const Doubles all = TransformerOracle(config, weights).run(tokens, tokens).logits;
  const auto device = cpu();
  for (const AttentionForm form : {AttentionForm::plain, AttentionForm::fused}) {
    const auto prefill = testing::run_eager(inference_graph(config, {.attention = form}),
                                            inputs_of(config, weights, tokens, {}), *device);
    expect_close(prefill.at("logits"), all, 3e-5, "prefill");
    Doubles last;
    for (int64_t b = 1; b <= config.batch_size; ++b) {
      const auto end = all.begin() + b * config.context_length * config.vocabulary;
      last.insert(last.end(), end - config.vocabulary, end);
    }
    expect_close(decoded_logits(*device, form, config, weights, tokens), last, 3e-5, "decode");
  }
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

}  // namespace
}  // namespace ridgeline
