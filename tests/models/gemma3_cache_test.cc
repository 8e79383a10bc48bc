// Gemma-3 behind a cache against plain fp64 loops over the whole sequence.
#include "models/gemma3_cache.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "base/error.h"
#include "models/gemma3_run.h"
#include "models/transformer_inputs.h"
#include "support/gpu.h"

namespace ridgeline {
namespace {

using testing::gemma_inputs;
using testing::gemma_tokens;
using testing::gemma_weights;
using testing::GemmaOracle;
using testing::GemmaRunner;
using testing::GemmaWeights;
using testing::tiny_gemma;

constexpr int64_t kCached = 14;  // tokens of each of two sequences; windows are 5
constexpr double kSingleError = 3e-5;

struct CachedWay {
  AttentionForm form;
  Mode mode;
};
constexpr CachedWay kCachedWays[] = {{AttentionForm::plain, Mode::vanilla},
                                     {AttentionForm::plain, Mode::compiled},
                                     {AttentionForm::fused, Mode::vanilla},
                                     {AttentionForm::fused, Mode::compiled}};

// Two sequences, and what follows each of their tokens.
struct TwoTexts {
  explicit TwoTexts(const Gemma3Config& of) : config(of), weights(gemma_weights(of, 4)) {
    for (const int factor : {5, 7}) {
      texts.push_back(gemma_tokens(config, kCached, factor));
      expected.push_back(GemmaOracle(config, weights).run(texts.back()));
    }
    inputs = gemma_inputs(config, weights, {}, config.max_positions);
  }
  std::vector<double> tokens(int64_t first, int64_t count) const {
    std::vector<double> ids;
    for (const auto& text : texts)
      for (int64_t i = first; i < first + count; ++i) ids.push_back(text[static_cast<size_t>(i)]);
    return ids;
  }
  std::vector<double> logits(int64_t first, int64_t count) const {
    std::vector<double> rows;
    for (const auto& text : expected)
      for (int64_t i = first; i < first + count; ++i) {
        const auto& row = text[static_cast<size_t>(i)];
        rows.insert(rows.end(), row.begin(), row.end());
      }
    return rows;
  }
  Gemma3CacheOptions options(const CachedWay& way, int64_t count) const {
    return {.batch_size = 2,
            .tokens = count,
            .capacity = config.max_positions,
            .chunk = 4,
            .dtype = DType::f32,
            .attention = way.form,
            .last_only = false};
  }

  Gemma3Config config;
  GemmaWeights weights;
  InterpreterInputs inputs;
  std::vector<std::vector<int>> texts;
  std::vector<GemmaOracle::Rows> expected;
};

void expect_decoded_logits(Device& device, const TwoTexts& texts) {
  for (const CachedWay& way : kCachedWays) {
    if (texts.config.score_cap && way.form == AttentionForm::fused) continue;
    GemmaRunner decode(device, gemma3_decode_graph(texts.config, texts.options(way, 1)), way.mode,
                       texts.inputs);
    for (int64_t i = 0; i < kCached; ++i)
      testing::expect_close(decode.logits_of(texts.tokens(i, 1)), texts.logits(i, 1), kSingleError,
                            "token " + std::to_string(i));
    EXPECT_EQ(decode.output("position")[0], kCached);
  }
}

TEST(Gemma3Cache, TokenByTokenGivesTheLogitsOfTheWholeSequence) {
  const auto device = testing::cpu();
  expect_decoded_logits(*device, TwoTexts(tiny_gemma()));
  Gemma3Config capped = tiny_gemma();
  capped.score_cap = 2.5;
  capped.logit_cap = 4;
  expect_decoded_logits(*device, TwoTexts(capped));
}

TEST(Gemma3Cache, TokenByTokenGivesTheLogitsOfTheWholeSequenceOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  expect_decoded_logits(*testing::gpu(), TwoTexts(tiny_gemma()));
}

// A prompt that is longer than the rings, and one that is shorter; then tokens behind it.
TEST(Gemma3Cache, APromptAtOnceLeavesWhatItsTokensWouldHave) {
  const auto device = testing::cpu();
  const TwoTexts texts(tiny_gemma());
  for (const CachedWay& way : kCachedWays)
    for (const int64_t prompt : {3, 11}) {
      GemmaRunner prefill(*device, gemma3_prefill_graph(texts.config, texts.options(way, prompt)),
                          way.mode, texts.inputs);
      testing::expect_close(prefill.logits_of(texts.tokens(0, prompt)), texts.logits(0, prompt),
                            kSingleError, "prompt");
      GemmaRunner decode(*device, gemma3_decode_graph(texts.config, texts.options(way, 1)),
                         way.mode, texts.inputs);
      decode.continue_from(prefill);
      for (int64_t i = prompt; i < kCached; ++i)
        testing::expect_close(decode.logits_of(texts.tokens(i, 1)), texts.logits(i, 1),
                              kSingleError, "behind the prompt");
    }
}

TEST(Gemma3Cache, APromptInChunksGivesTheSameAsAtOnce) {
  const auto device = testing::cpu();
  const TwoTexts texts(tiny_gemma());
  for (const CachedWay& way : kCachedWays) {
    GemmaRunner chunks(*device, gemma3_decode_graph(texts.config, texts.options(way, 4)), way.mode,
                       texts.inputs);
    for (int64_t i = 0; i + 4 <= kCached; i += 4)
      testing::expect_close(chunks.logits_of(texts.tokens(i, 4)), texts.logits(i, 4), kSingleError,
                            "chunk");
    GemmaRunner rest(*device, gemma3_decode_graph(texts.config, texts.options(way, 2)), way.mode,
                     texts.inputs);
    rest.continue_from(chunks);
    testing::expect_close(rest.logits_of(texts.tokens(12, 2)), texts.logits(12, 2), kSingleError,
                          "rest");
  }
}

// The oracle's greedy continuation of both prompts, [2, count].
std::vector<std::vector<int>> greedy_texts(const TwoTexts& texts, int64_t prompt, int64_t count) {
  std::vector<std::vector<int>> results;
  for (const auto& whole : texts.texts) {
    std::vector<int> text(whole.begin(), whole.begin() + prompt);
    std::vector<int> added;
    for (int64_t i = 0; i < count; ++i) {
      const auto row = GemmaOracle(texts.config, texts.weights).run(text).back();
      added.push_back(static_cast<int>(std::ranges::max_element(row) - row.begin()));
      text.push_back(added.back());
    }
    results.push_back(added);
  }
  return results;
}

TEST(Gemma3Cache, GreedyStepsNeedNoHost) {
  constexpr int64_t kPrompt = 6, kSteps = 9, kHistory = 32;
  const auto device = testing::cpu();
  const TwoTexts texts(tiny_gemma());
  const auto expected = greedy_texts(texts, kPrompt, 1 + kSteps);
  for (const CachedWay& way : kCachedWays) {
    const auto options = [&](int64_t tokens) {
      Gemma3CacheOptions own = texts.options(way, tokens);
      own.last_only = own.greedy = true;
      own.history = kHistory;
      return own;
    };
    GemmaRunner prefill(*device, gemma3_prefill_graph(texts.config, options(kPrompt)), way.mode,
                        texts.inputs);
    prefill.logits_of(texts.tokens(0, kPrompt));
    GemmaRunner decode(*device, gemma3_decode_graph(texts.config, options(1)), way.mode,
                       texts.inputs);
    decode.continue_from(prefill);
    decode.set("tokens", prefill.output("next"));
    for (int64_t i = 0; i < kSteps; ++i) decode.run();
    const std::vector<double> history = decode.output("history");
    for (size_t text = 0; text < 2; ++text)
      for (int64_t i = 0; i <= kSteps; ++i)
        EXPECT_EQ(history[text * kHistory + static_cast<size_t>(kPrompt - 1 + i)],
                  expected[text][static_cast<size_t>(i)])
            << text << " " << i;
    EXPECT_EQ(decode.output("position")[0], kPrompt + kSteps);
    EXPECT_EQ(decode.output("tokens")[1], expected[1].back());
  }
}

// The oracle of the same graphs, in fp64: a step behind a cache that an earlier step has filled.
TEST(Gemma3Cache, InterpretedStepsAreTheOracles) {
  const TwoTexts texts(tiny_gemma());
  const Graph graph = gemma3_decode_graph(texts.config, texts.options(kCachedWays[0], 4));
  InterpreterInputs inputs = texts.inputs;
  for (const Value value : graph.inputs()) {
    const std::string& name = graph.node(value).name;
    if (!inputs.contains(name) || name == "tokens")
      inputs[name].assign(static_cast<size_t>(element_count(graph.type(value).shape)), 0);
  }
  for (int64_t i = 0; i + 4 <= kCached; i += 4) {
    inputs["tokens"] = texts.tokens(i, 4);
    const auto values = interpret(graph, inputs);
    for (const Output& output : graph.outputs()) {
      const auto& got = values[graph.index(output.value)];
      if (output.name == "logits")
        testing::expect_close(got, texts.logits(i, 4), 2e-6, "tables are fp32");
      else
        inputs[output.name] = got;
    }
  }
}

TEST(Gemma3Cache, RingsHoldTheWindowsOfAChunk) {
  const Gemma3Config config = gemma3_config("270m");
  EXPECT_EQ(gemma3_cache_slots(config, Gemma3Layer::full, {.capacity = 4096}), 4096);
  EXPECT_EQ(gemma3_cache_slots(config, Gemma3Layer::sliding, {.capacity = 4096}), 512);
  EXPECT_EQ(gemma3_cache_slots(config, Gemma3Layer::sliding, {.capacity = 4096, .chunk = 64}), 575);
  EXPECT_EQ(gemma3_cache_slots(config, Gemma3Layer::sliding, {.capacity = 300}), 300);
}

TEST(Gemma3Cache, RequestsThatCannotBeServedAreRefused) {
  const Gemma3Config config = tiny_gemma();
  EXPECT_THROW(gemma3_decode_graph(config, {.capacity = 65}), Error);  // positions of the model: 64
  EXPECT_THROW(gemma3_prefill_graph(config, {.tokens = 9, .capacity = 8}), Error);
  EXPECT_THROW(gemma3_decode_graph(config, {.tokens = 4, .capacity = 8, .chunk = 2}), Error);
  EXPECT_THROW(gemma3_decode_graph(config, {.capacity = 0}), Error);
  EXPECT_THROW(gemma3_decode_graph(config, {.capacity = 8, .history = 4}), Error);
  EXPECT_THROW(gemma3_decode_graph(config, {.capacity = 8, .last_only = false, .greedy = true}),
               Error);
  Gemma3Config capped = config;
  capped.score_cap = 5;
  EXPECT_THROW(gemma3_decode_graph(capped, {.capacity = 8, .attention = AttentionForm::fused}),
               Error);
}

}  // namespace
}  // namespace ridgeline
