// Gemma-3 as a graph against plain fp64 loops, in every form and on every rung.
#include "models/gemma3.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "models/gemma3_run.h"
#include "models/transformer_inputs.h"
#include "support/gpu.h"
#include "support/interpreter/interpreter.h"

namespace ridgeline {
namespace {

using testing::cpu;
using testing::Doubles;
using testing::expect_close;
using testing::gemma3_graph;
using testing::gemma_inputs;
using testing::gemma_tokens;
using testing::gemma_weights;
using testing::GemmaOracle;
using testing::GemmaWeights;
using testing::tiny_gemma;

constexpr int64_t kTokens = 13;  // past the window of 5

// Two sequences, [2, tokens].
std::vector<int> two_sequences(const Gemma3Config& config, int64_t tokens) {
  return gemma_tokens(config, 2 * tokens, 5);
}

Doubles oracle_logits(const Gemma3Config& config, const GemmaWeights& weights, int64_t tokens,
                      bool last_only = false) {
  const std::vector<int> ids = two_sequences(config, tokens);
  Doubles logits;
  for (int64_t b = 0; b < 2; ++b) {
    const auto begin = ids.begin() + b * tokens;
    const auto rows = GemmaOracle(config, weights).run({begin, begin + tokens});
    for (size_t i = last_only ? rows.size() - 1 : 0; i < rows.size(); ++i)
      logits.insert(logits.end(), rows[i].begin(), rows[i].end());
  }
  return logits;
}

Doubles run_on(Device& device, const Graph& graph, const InterpreterInputs& inputs, Mode mode) {
  Executable executable([&](const Rewrite& forward) { return forward(graph); }, device,
                        {.mode = mode});
  executable.prepare();
  EXPECT_EQ(executable.fallback(), "");
  for (const auto& [name, values] : inputs) testing::upload(device, executable.input(name), values);
  executable.run();
  return testing::elements(device, executable.output("logits"));
}

// The variations that change what is computed.
std::vector<Gemma3Config> variations() {
  std::vector<Gemma3Config> all = {tiny_gemma()};
  Gemma3Config capped = tiny_gemma();
  capped.score_cap = 2.5;
  capped.logit_cap = 4;
  capped.tied_head = false;
  all.push_back(capped);
  Gemma3Config single = tiny_gemma();  // the 270m's heads, and layers of one kind
  single.key_heads = 1;
  single.layers = gemma3_layers(2, 3);
  single.query_scalar = 16;
  all.push_back(single);
  return all;
}

TEST(Gemma3, InterpretedLogitsAreTheOraclesToTheLastDigits) {
  for (const Gemma3Config& config : variations()) {
    const GemmaWeights weights = gemma_weights(config, 1);
    InterpreterInputs inputs =
        gemma_inputs(config, weights, two_sequences(config, kTokens), kTokens);
    // Tables in fp64, too.
    for (const Gemma3Layer layer : config.layers)
      for (int64_t i = 0; i < kTokens * config.head_dim / 2; ++i) {
        const double k = static_cast<double>(i % (config.head_dim / 2));
        const double angle =
            static_cast<double>(i / (config.head_dim / 2)) / config.rope(layer).factor *
            std::pow(config.rope(layer).theta, -2 * k / static_cast<double>(config.head_dim));
        const std::string scope(table_scope(layer));
        inputs[scope + ".cos"][static_cast<size_t>(i)] = std::cos(angle);
        inputs[scope + ".sin"][static_cast<size_t>(i)] = std::sin(angle);
      }
    const Graph graph =
        gemma3_graph(config, {.batch_size = 2, .tokens = kTokens, .dtype = DType::f32});
    const auto values = interpret(graph, inputs);
    expect_close(values[graph.index(graph.outputs()[0].value)],
                 oracle_logits(config, weights, kTokens), 1e-11, "logits");
  }
}

void expect_logits_of_the_oracle(Device& device) {
  for (const Gemma3Config& config : variations()) {
    const GemmaWeights weights = gemma_weights(config, 1);
    const Doubles expected = oracle_logits(config, weights, kTokens);
    const InterpreterInputs inputs =
        gemma_inputs(config, weights, two_sequences(config, kTokens), kTokens);
    for (const AttentionForm form : {AttentionForm::plain, AttentionForm::fused})
      for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
        const Graph graph = gemma3_graph(
            config, {.batch_size = 2, .tokens = kTokens, .dtype = DType::f32, .attention = form});
        expect_close(run_on(device, graph, inputs, mode), expected, 3e-5,
                     std::string(info(mode).name));
      }
  }
}

TEST(Gemma3, LogitsAreTheOracles) {
  expect_logits_of_the_oracle(*cpu());
}

TEST(Gemma3, LogitsAreTheOraclesOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  expect_logits_of_the_oracle(*testing::gpu());
}

TEST(Gemma3, TheFirstTokenPastAWindowHidesOne) {
  const Gemma3Config config = tiny_gemma();
  const GemmaWeights weights = gemma_weights(config, 1);
  const auto device = cpu();
  for (const int64_t tokens : {config.sliding_window, config.sliding_window + 1})
    for (const AttentionForm form : {AttentionForm::plain, AttentionForm::fused}) {
      const Graph graph = gemma3_graph(
          config, {.batch_size = 2, .tokens = tokens, .dtype = DType::f32, .attention = form});
      expect_close(run_on(*device, graph,
                          gemma_inputs(config, weights, two_sequences(config, tokens), tokens),
                          Mode::vanilla),
                   oracle_logits(config, weights, tokens), 3e-5, "logits");
    }
}

TEST(Gemma3, LogitsOfTheLastTokenAloneFromLongerTables) {
  const Gemma3Config config = tiny_gemma();
  const GemmaWeights weights = gemma_weights(config, 2);
  const InterpreterInputs inputs =
      gemma_inputs(config, weights, two_sequences(config, kTokens), config.max_positions);
  const auto device = cpu();
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    const Graph graph = gemma3_graph(config, {.batch_size = 2,
                                              .tokens = kTokens,
                                              .positions = config.max_positions,
                                              .dtype = DType::f32,
                                              .last_only = true});
    EXPECT_EQ(graph.type(graph.outputs()[0].value).shape, (Shape{2, 1, config.vocabulary}));
    expect_close(run_on(*device, graph, inputs, mode),
                 oracle_logits(config, weights, kTokens, true), 3e-5, "last logits");
  }
}

// Rounding the same values at the same nodes: what differs is the order of sums, in a few logits by
// one rounding.
TEST(Gemma3, NarrowLogitsAreThoseOfTheGraphRoundedNodeByNode) {
  const Gemma3Config config = tiny_gemma();
  const GemmaWeights weights = gemma_weights(config, 3, DType::bf16);
  const InterpreterInputs inputs =
      gemma_inputs(config, weights, two_sequences(config, kTokens), kTokens);
  const Graph graph = gemma3_graph(config, {.batch_size = 2, .tokens = kTokens});
  const Doubles exact =
      interpret(graph, inputs, {.round_to_dtype = true})[graph.index(graph.outputs()[0].value)];
  const Doubles got = run_on(*cpu(), graph, inputs, Mode::vanilla);
  size_t equal = 0;
  for (size_t i = 0; i < got.size(); ++i) equal += got[i] == exact[i];
  EXPECT_GT(static_cast<double>(equal), 0.5 * static_cast<double>(got.size()));
  expect_close(got, exact, 0.02, "logits");
}

// What the flash pass finds is the node that the fused form builds: grouped heads and windows.
TEST(Gemma3, TheFlashPassFindsEveryAttention) {
  const Gemma3Config config = tiny_gemma();
  FlashReport report;
  const Graph found = flash(gemma3_graph(config, {.tokens = kTokens}), {}, &report);
  EXPECT_EQ(report.found.size(), config.layers.size());
  std::vector<int64_t> windows;
  for (const Node& node : found.nodes())
    if (node.op == Op::attention) {
      const auto& spec = std::get<AttentionSpec>(node.attributes.detail);
      windows.push_back(spec.mask.window);
      EXPECT_TRUE(spec.mask.causal);
      EXPECT_EQ(spec.function, nullptr);
      EXPECT_EQ(found.type(node.inputs[1]).shape[1], config.key_heads);
    }
  EXPECT_EQ(windows, (std::vector<int64_t>{5, 0, 5, 0}));
}

TEST(Gemma3, ATiedHeadIsOneInput) {
  const Graph graph = gemma3_graph(tiny_gemma(), {.tokens = 4});
  const auto inputs = graph.inputs();
  EXPECT_TRUE(std::ranges::none_of(
      inputs, [&](Value value) { return graph.node(value).name == "lm_head.weight"; }));
}

TEST(Gemma3, ParameterCountsAreThePublishedOnes) {
  EXPECT_EQ(parameter_count(gemma3_config("270m")), 268'098'176);
  EXPECT_EQ(parameter_count(gemma3_config("1b")), 999'885'952);
  EXPECT_EQ(parameter_count(gemma3_config("4b")), 3'880'263'168);
}

TEST(Gemma3, BeginningsAreTheLibrarys) {
  const std::vector<Parameter> parameters = gemma3_parameters(tiny_gemma());
  EXPECT_EQ(parameters[0].name, "model.embed_tokens.weight");
  const std::vector<float> table = beginning_of(parameters[0], 7);
  double squares = 0;
  for (const float value : table) squares += static_cast<double>(value) * value;
  EXPECT_NEAR(std::sqrt(squares / static_cast<double>(table.size())), 0.3, 0.03);
  const auto norm =
      std::ranges::find(parameters, "model.layers.1.self_attn.k_norm.weight", &Parameter::name);
  ASSERT_NE(norm, parameters.end());
  EXPECT_EQ(beginning_of(*norm, 7), std::vector<float>(8, 0.0f));
}

// The angles of the reference, whose frequencies are fp32 numbers: far out they differ from exact
// ones by more than a rounding.
TEST(Gemma3, AnglesAreThoseOfSingleFrequencies) {
  const Gemma3Config config = gemma3_config("270m");
  const RopeValues values = gemma3_rope_values(config, Gemma3Layer::sliding, 32768);
  const float frequency = 1.0f / static_cast<float>(std::pow(1e4, 2.0 / 256));
  const float angle = 32767.0f * frequency;
  EXPECT_EQ(values.cos[32767 * 128 + 1], static_cast<float>(std::cos(static_cast<double>(angle))));
  EXPECT_EQ(values.cos[0], 1);
  EXPECT_EQ(values.sin[0], 0);
}

TEST(Gemma3, RequestsThatMakeNoGraphAreRefused) {
  const Gemma3Config config = tiny_gemma();
  EXPECT_THROW(gemma3_graph(config, {.tokens = 65}), Error);
  Gemma3Config odd = config;
  odd.heads = 3;
  EXPECT_THROW(gemma3_graph(odd, {.tokens = 4}), Error);
}

}  // namespace
}  // namespace ridgeline
