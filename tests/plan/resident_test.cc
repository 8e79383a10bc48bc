// Which plans become a resident kernel, and how their values share shared memory.
#include "plan/resident.h"

#include <gtest/gtest.h>

#include <set>

#include "compile/lower.h"
#include "models/gemma3_cache.h"
#include "models/transformer_lm.h"

namespace ridgeline {
namespace {

Gemma3Config few_layers() {
  Gemma3Config config = gemma3_config("270m");
  config.layers = {Gemma3Layer::sliding, Gemma3Layer::full, Gemma3Layer::sliding};
  config.vocabulary = 4096;
  return config;
}

struct Planned {
  Graph graph;
  Plan plan;
};
Planned planned(const Graph& traced) {
  Lowered lowered =
      lower([&](const Rewrite& forward) { return forward(traced); }, {.mode = Mode::compiled});
  Plan plan = make_plan(lowered.graph);
  return {std::move(lowered.graph), std::move(plan)};
}
Gemma3CacheOptions one_token() {
  return {.capacity = 128, .attention = AttentionForm::fused, .greedy = true, .history = 16};
}

TEST(Resident, TakesAllOfADecodeStepAndCanRepeatIt) {
  const auto [graph, plan] = planned(gemma3_decode_graph(few_layers(), one_token()));
  std::string why;
  const std::optional<ResidentPlan> resident = make_resident(graph, plan, why);
  ASSERT_TRUE(resident) << why;
  EXPECT_EQ(resident->kernels, plan.kernels.size());
  ASSERT_EQ(resident->stores.size(), 2u);  // the token goes to the history and to the input,
  EXPECT_EQ(resident->stores[0].slots, 16);
  EXPECT_EQ(resident->stores[1].slots, 1);
  EXPECT_EQ(resident->advance, 1);  // and the position advances
  EXPECT_TRUE(resident->repeats);
  size_t products = 0, pairs = 0, attentions = 0;
  for (const ResidentStep& step : resident->steps) {
    products += step.kind == ResidentStep::Kind::product;
    attentions += step.kind == ResidentStep::Kind::attention;
    pairs += step.pair.has_value();
  }
  EXPECT_EQ(products, 3u * 4 + 1);
  EXPECT_EQ(pairs, 3u);  // gate and up of each layer
  EXPECT_EQ(attentions, 3u);
  EXPECT_TRUE(resident->steps.back().is_last);
  EXPECT_TRUE(resident->steps.back().largest);
  EXPECT_TRUE(resident->steps.back().stored);  // logits are an output
}

// Whatever is written in one step and read in a later one must not be overwritten in between.
TEST(Resident, ValuesThatLiveTogetherLieApart) {
  const auto [graph, plan] = planned(gemma3_decode_graph(few_layers(), one_token()));
  std::string why;
  const std::optional<ResidentPlan> resident = make_resident(graph, plan, why);
  ASSERT_TRUE(resident) << why;
  for (const ResidentStep& step : resident->steps) {
    // Within a step all operands are alive; none but parts of one value may overlap, and equal
    // places have one number.
    const std::set<int64_t> places(step.at.begin(), step.at.end());
    EXPECT_EQ(places.size(), step.at.size());
    for (int64_t at : step.at) {
      EXPECT_GE(at, 0);
      EXPECT_LT(at, resident->value_bytes);
    }
  }
}

TEST(Resident, RefusesWhatHasMoreThanOneRow) {
  std::string why;
  Gemma3CacheOptions options = one_token();
  options.batch_size = 2;
  const auto [graph, plan] = planned(gemma3_decode_graph(few_layers(), options));
  EXPECT_FALSE(make_resident(graph, plan, why));
  EXPECT_NE(why, "");
}

// Tokens that are drawn elsewhere come from outside in every step.
TEST(Resident, DoesNotRepeatWhatFindsNoTokenItself) {
  std::string why;
  Gemma3CacheOptions options = one_token();
  options.greedy = false;
  options.history = 0;
  const auto [graph, plan] = planned(gemma3_decode_graph(few_layers(), options));
  const std::optional<ResidentPlan> resident = make_resident(graph, plan, why);
  ASSERT_TRUE(resident) << why;
  EXPECT_EQ(resident->kernels, plan.kernels.size());
  EXPECT_EQ(resident->advance, 1);
  EXPECT_FALSE(resident->repeats);
}

// A stage runs by itself, and the kernel would run all of them.
TEST(Resident, RefusesASecondStage) {
  std::string why;
  Graph traced = gemma3_decode_graph(few_layers(), one_token());
  traced.begin_stage("second");
  const auto [graph, plan] = planned(traced);
  ASSERT_EQ(plan.stages.size(), 2u);
  EXPECT_FALSE(make_resident(graph, plan, why));
  EXPECT_NE(why.find("stages"), std::string::npos) << why;
}

// What follows an append in a small model of one row: `attend` adds an attention over the caches at
// `at`, and returns its result.
Graph with_appends(
    const std::function<Tensor(Tensor x, Tensor keys, Tensor values, Tensor at)>& attend) {
  Graph graph;
  const TensorType cache{DType::bf16, {1, 1, 64, 128}};
  const Tensor table = input(graph, "table", {DType::bf16, {64, 128}});
  const Tensor position = input(graph, "position", {DType::i32, {1}});
  const Tensor x = gather(table, input(graph, "token", {DType::i32, {1}}));
  const Tensor row = reshape(x, {1, 1, 1, 128});
  const Tensor keys = append(input(graph, "keys", cache), row, position);
  const Tensor values = append(input(graph, "values", cache), row, position);
  const Tensor y = attend(row, keys, values, position);
  graph.mark_output("logits", matmul(reshape(y, {1, 128}), transpose(table)).value());
  return graph;
}

// Only its attention stores a new key and value: the kernel has no step of its own for an append.
TEST(Resident, RefusesAnAppendThatNoAttentionFollows) {
  std::string why;
  const auto attend = [](const Tensor& x, const Tensor& keys, const Tensor& values,
                         const Tensor& at) {
    return cached_attention(x, keys, values, at, {.mask = {.causal = true}}).output;
  };
  const auto [graph, plan] = planned(with_appends(attend));
  EXPECT_TRUE(make_resident(graph, plan, why)) << why;
  const auto [alone, plan_alone] =
      planned(with_appends([](const Tensor& x, auto&&...) { return x; }));
  EXPECT_FALSE(make_resident(alone, plan_alone, why));
  EXPECT_NE(why.find("no attention"), std::string::npos) << why;
}

// An attention stores them at its own position.
TEST(Resident, RefusesAnAppendAtAnotherPositionThanItsAttention) {
  std::string why;
  const auto [graph, plan] = planned(
      with_appends([](const Tensor& x, const Tensor& keys, const Tensor& values, const Tensor&) {
        const Tensor other = input(x.graph(), "other position", {DType::i32, {1}});
        return cached_attention(x, keys, values, other, {.mask = {.causal = true}}).output;
      }));
  EXPECT_FALSE(make_resident(graph, plan, why));
  EXPECT_NE(why.find("position"), std::string::npos) << why;
}

TEST(Resident, RefusesASecondAppendToACache) {
  std::string why;
  const auto [graph, plan] = planned(
      with_appends([](const Tensor& x, const Tensor& keys, const Tensor& values, const Tensor& at) {
        const Tensor y = cached_attention(x, keys, values, at, {.mask = {.causal = true}}).output;
        append(keys, y, at);
        return y;
      }));
  EXPECT_FALSE(make_resident(graph, plan, why));
  EXPECT_NE(why.find("append"), std::string::npos) << why;
}

TEST(Resident, RefusesOtherDtypesAndTraining) {
  std::string why;
  Gemma3CacheOptions options = one_token();
  options.dtype = DType::f32;
  const auto [graph, plan] = planned(gemma3_decode_graph(few_layers(), options));
  EXPECT_FALSE(make_resident(graph, plan, why));
  EXPECT_NE(why, "");
  TransformerConfig small;
  small.layers = 1;
  small.context_length = 16;
  const Graph training = training_graph(small, {});
  EXPECT_FALSE(make_resident(training, make_plan(training), why));
}

}  // namespace
}  // namespace ridgeline
