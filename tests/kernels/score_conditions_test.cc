// When attention with a function of scores looks first for what the function hides, and how.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <random>

#include "graph/score_function.h"
#include "graph/tensor.h"
#include "kernels/cpu/score_tiles.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/params.h"
#include "passes/score_region.h"
#include "support/expect.h"

namespace ridgeline::score_conditions_test {
namespace {

struct Inputs {
  Tensor score, of_queries, of_keys, query, key;
  Tensor hidden() const { return scalar(score, -std::numeric_limits<double>::infinity()); }
};
using Formula = Tensor (*)(const Inputs&);

std::shared_ptr<const ScoreFunction> function_of(Formula formula) {
  Graph graph;
  const auto enter = [&](const char* name, DType dtype) { return input(graph, name, {dtype, {}}); };
  const Inputs inputs = {enter("score", DType::f32), enter("operand0", DType::i32),
                         enter("operand1", DType::i32), enter("query", DType::i32),
                         enter("key", DType::i32)};
  graph.mark_output("result", formula(inputs).value());
  return make_score_function(graph, {2, 3});
}

Tensor documents(const Inputs& in) {
  return where(equal(in.of_queries, in.of_keys), in.score, in.hidden());
}
Tensor all_but_documents(const Inputs& in) {
  return where(equal(in.of_queries, in.of_keys), in.hidden(), in.score);
}
Tensor positions(const Inputs& in) {
  return where(less(in.query, in.key), in.score, in.hidden());
}
Tensor both(const Inputs& in) {
  return where(less(in.query, in.key), documents(in), in.hidden());
}
Tensor by_score(const Inputs& in) {
  return where(less(in.score, scalar(in.score, 3)), in.score, in.hidden());
}
Tensor lowered(const Inputs& in) {
  return where(equal(in.of_queries, in.of_keys), in.score, in.score - 5);
}

struct Problem {
  Formula formula;
  int64_t length = 1024;
  int64_t batches = 1, heads = 1;  // of operands
  bool causal = false;
  int compute_capability = 90;
  BackwardAlgorithm backward = BackwardAlgorithm::single_pass;
};
constexpr int64_t kBatches = 2, kHeads = 6, kKeyHeads = 3;

struct Plans {
  std::vector<CudaLaunch> forward, backward;
  Bytes forward_scratch, backward_scratch;
};

Plans plans_of(const Problem& problem) {
  const auto view = [](DType dtype, const Shape& shape) {
    return TensorView{reinterpret_cast<void*>(uintptr_t{0x1000}), dtype, shape,
                      contiguous_strides(shape)};
  };
  const int64_t length = problem.length;
  const TensorView q = view(DType::bf16, {kBatches, kHeads, length, 64}),
                   k = view(DType::bf16, {kBatches, kKeyHeads, length, 64}),
                   sums = view(DType::f32, {kBatches, kHeads, length}),
                   of_queries = view(DType::i32, {problem.batches, problem.heads, length, 1}),
                   of_keys = view(DType::i32, {problem.batches, problem.heads, 1, length});
  CudaFacts device;
  device.compute_capability = problem.compute_capability;
  device.shared_bytes_per_block = 227 << 10;
  const CudaChooser first = [](const auto&, size_t, const auto&) { return size_t{0}; };
  const auto plan = [&](Op op, const std::vector<TensorView>& inputs,
                        const std::vector<TensorView>& outputs, Bytes& scratch) {
    const Node node{
        .op = op,
        .inputs = {},
        .attributes = {.detail = AttentionSpec{.mask = {.causal = problem.causal},
                                               .backward = problem.backward,
                                               .function = function_of(problem.formula)},
                       .target = {}},
        .outputs = {},
        .name = {}};
    std::vector<TensorType> types;
    for (const TensorView& input : inputs) types.push_back({input.dtype, input.shape});
    scratch = cuda_scratch(node, types, device);
    return cuda_op(op).plan({.node = node,
                             .inputs = inputs,
                             .outputs = outputs,
                             .device = device,
                             .scratch = q.data,
                             .choose = first});
  };
  Plans plans;
  plans.forward =
      plan(Op::attention, {q, k, k, of_queries, of_keys}, {q, sums}, plans.forward_scratch);
  plans.backward = plan(Op::attention_gradient, {q, k, k, q, sums, q, of_queries, of_keys},
                        {q, k, k}, plans.backward_scratch);
  return plans;
}

std::string seen_entries(const std::vector<CudaLaunch>& launches) {
  std::string entries;
  for (const CudaLaunch& launch : launches)
    if (launch.kernel.file == "flash_seen.cu") entries += launch.kernel.entry + " ";
  return entries;
}
bool skips(const CudaLaunch& launch) {
  for (const auto& [name, value] : launch.kernel.constants)
    if (name == "VISIBLE_AXES") return true;
  return false;
}

TEST(ScoreConditions, ConditionsThatHideAreLookedAtBeforeEachPass) {
  for (Formula formula : {documents, all_but_documents, both, positions}) {
    const Plans plans = plans_of({.formula = formula});
    EXPECT_EQ(seen_entries(plans.forward), "flash_seen_keys ");
    EXPECT_EQ(seen_entries(plans.backward), "flash_seen_queries ");
    EXPECT_TRUE(skips(plans.forward.back()));
    EXPECT_GT(plans.forward_scratch.count, 0);
  }
  const Plans two = plans_of({.formula = documents, .backward = BackwardAlgorithm::two_pass});
  EXPECT_EQ(seen_entries(two.backward), "flash_seen_queries flash_seen_keys ");
  EXPECT_TRUE(skips(two.backward.back()));
}

TEST(ScoreConditions, NobodyLooksWhereNothingIsToBeGained) {
  for (const Problem& problem : {Problem{.formula = by_score}, Problem{.formula = lowered},
                                 Problem{.formula = documents, .length = 200},
                                 Problem{.formula = documents, .compute_capability = 80},
                                 // What is left beside a mask of positions.
                                 Problem{.formula = positions, .causal = true}}) {
    const Plans plans = plans_of(problem);
    for (const auto& launches : {plans.forward, plans.backward}) {
      EXPECT_EQ(seen_entries(launches), "");
      for (const CudaLaunch& launch : launches) EXPECT_FALSE(skips(launch));
    }
  }
  EXPECT_EQ(plans_of({.formula = lowered}).forward_scratch.count, 0);
}

TEST(ScoreConditions, ConditionsAreWantedAsTheyHide) {
  const auto found = score_conditions(*function_of(all_but_documents));
  ASSERT_EQ(found.size(), 1u);
  EXPECT_FALSE(found[0].wanted);
  EXPECT_EQ(score_conditions(*function_of(both)).size(), 2u);
  EXPECT_EQ(score_conditions(*function_of(by_score)).size(), 0u);
}

// Operands that batches or heads share are looked at once; heads that share keys share their range.
TEST(ScoreConditions, EveryHeadThatDiffersHasItsOwn) {
  constexpr int64_t kGroups = 1024 / kVisibleGroup;
  for (int64_t batches : {int64_t{1}, kBatches})
    for (int64_t heads : {int64_t{1}, kHeads}) {
      const Plans plans = plans_of({.formula = documents, .batches = batches, .heads = heads});
      EXPECT_EQ(plans.forward[0].grid[0], kGroups * batches * heads);
      const int64_t key_heads = heads == 1 ? 1 : kKeyHeads;
      EXPECT_EQ(plans.backward[0].grid[0], kGroups * batches * key_heads);
      FlashSeenParams params;
      ASSERT_EQ(plans.backward[0].params.size(), sizeof params);
      std::memcpy(&params, plans.backward[0].params.data(), sizeof params);
      EXPECT_EQ(params.heads, key_heads);
      EXPECT_EQ(params.group, heads == 1 ? 1 : kHeads / kKeyHeads);
      EXPECT_EQ(params.groups, kGroups);
      EXPECT_GE(plans.forward_scratch.count,
                kGroups * batches * heads * static_cast<int64_t>(sizeof(VisibleRange)));
    }
}

// Whether kernels of the CPU compute a tile of scores.
class HiddenTiles {
 public:
  explicit HiddenTiles(Formula formula) {
    for (int64_t i = 0; i < kLength; ++i) documents_.push_back(i < 100 ? 0 : i < 103 ? 1 : 2);
    const auto view = [&](const Shape& shape) {
      return TensorView{documents_.data(), DType::i32, shape, contiguous_strides(shape)};
    };
    const std::vector<TensorView> operands = {view({1, 1, kLength, 1}), view({1, 1, 1, kLength})};
    tiles_.emplace(AttentionSpec{.function = function_of(formula)}, operands,
                   std::span<const TensorView>(), default_isa());
  }
  bool may_hide() const { return function().sees != nullptr; }
  bool sees(const FlashScores& place) const { return is_seen(function(), place); }
  bool same_document(int64_t query, int64_t key) const {
    return documents_[static_cast<size_t>(query)] == documents_[static_cast<size_t>(key)];
  }

  static constexpr int64_t kLength = 300;

 private:
  FlashFunction function() const { return tiles_->of_head(0, 0); }

  std::vector<int32_t> documents_;
  std::optional<ScoreTiles> tiles_;
};

FlashScores random_place(std::mt19937& random) {
  const auto range = [&] {
    const int64_t begin = static_cast<int64_t>(random() % HiddenTiles::kLength);
    const int64_t end = begin + 1 + static_cast<int64_t>(random() % 96);
    return FlashRange{begin, std::min(end, HiddenTiles::kLength)};
  };
  return {.rows = range(), .columns = range(), .rows_are_keys = random() % 2 == 0, .stride = 96};
}

template <class Visible>
bool any_visible(const FlashScores& place, Visible visible) {
  for (int64_t row = place.rows.begin; row < place.rows.end; ++row)
    for (int64_t column = place.columns.begin; column < place.columns.end; ++column)
      if (place.rows_are_keys ? visible(column, row) : visible(row, column)) return true;
  return false;
}

TEST(ScoreConditionsOnTheCpu, HideTilesWithoutAVisibleScore) {
  const HiddenTiles same(documents), others(all_but_documents), later(positions);
  std::mt19937 random(1);
  for (int i = 0; i < 300; ++i) {
    const FlashScores place = random_place(random);
    const auto is_same = [&](int64_t query, int64_t key) { return same.same_document(query, key); };
    EXPECT_EQ(same.sees(place), any_visible(place, is_same));
    EXPECT_EQ(others.sees(place), any_visible(place, std::not_fn(is_same)));
    EXPECT_EQ(later.sees(place), any_visible(place, std::less<>()));
  }
}

TEST(ScoreConditionsOnTheCpu, NeverHideAVisibleScoreIfThereAreSeveral) {
  const HiddenTiles tiles(both);
  std::mt19937 random(2);
  int hidden = 0;
  for (int i = 0; i < 300; ++i) {
    const FlashScores place = random_place(random);
    const bool visible = any_visible(place, [&](int64_t query, int64_t key) {
      return query < key && tiles.same_document(query, key);
    });
    hidden += !tiles.sees(place);
    EXPECT_TRUE(tiles.sees(place) || !visible);
  }
  EXPECT_GT(hidden, 100);
}

TEST(ScoreConditionsOnTheCpu, AreNoneIfTheyReadTheScoreOrHideNothing) {
  EXPECT_TRUE(HiddenTiles(documents).may_hide());
  EXPECT_FALSE(HiddenTiles(by_score).may_hide());
  EXPECT_FALSE(HiddenTiles(lowered).may_hide());
}

// Kernels move the sign of a scale into an operand of the product, in front of f.
TEST(ScoreFunctions, HaveAScaleAboveZero) {
  Graph graph;
  const Tensor q = input(graph, "q", {DType::f32, {1, 1, 4, 8}});
  const Tensor operand = input(graph, "operand", {DType::i32, {1, 1, 1, 1}});
  const Tensor operands[] = {operand, operand};
  const auto attend = [&](double scale) {
    attention(q, q, q, {.scale = scale, .function = function_of(documents)}, operands);
  };
  EXPECT_NO_THROW(attend(0.5));
  EXPECT_ERROR(attend(-0.5), ErrorKind::usage, "the scale -0.5");
}

}  // namespace
}  // namespace ridgeline::score_conditions_test
