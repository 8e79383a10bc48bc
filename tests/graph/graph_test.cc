#include "graph/graph.h"

#include <gtest/gtest.h>

#include <random>

#include "base/error.h"
#include "graph/layout.h"
#include "graph/schedule.h"
#include "graph/tensor.h"
#include "support/expect.h"
#include "support/random_graph.h"

namespace ridgeline {
namespace {

TEST(Graph, EqualNodesAreOneNode) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2, 3}});
  const Tensor a = exp(x) * 0.5;
  const size_t nodes = graph.nodes().size();
  const Tensor b = exp(x) * 0.5;
  EXPECT_EQ(a.value(), b.value());
  EXPECT_EQ(graph.nodes().size(), nodes);
}

TEST(Graph, ConstantsThatPrintAlikeStayApart) {
  Graph graph;
  EXPECT_NE(graph.constant(0.1, DType::f32), graph.constant(0.1 + 1e-17 + 1e-16, DType::f32));
  EXPECT_NE(graph.constant(0.0, DType::f32), graph.constant(-0.0, DType::f32));
  EXPECT_NE(graph.constant(1, DType::f32), graph.constant(1, DType::bf16));
}

TEST(Graph, PrintsOneLinePerNode) {
  Graph graph;
  const Tensor q = input(graph, "q", {DType::f32, {8, 4, 2}});
  const Tensor scores = (matmul(q, transpose(q)) * 0.5).named("scores");
  graph.mark_output("out", scores.value());
  EXPECT_EQ(to_text(graph),
            "%0 q = input(q) : fp32[8, 4, 2]\n"
            "%1 permute_1 = permute(%0, [0, 2, 1]) : fp32[8, 2, 4]\n"
            "%2 matmul_2 = matmul(%0, %1) : fp32[8, 4, 4]\n"
            "%3 constant_3 = constant(0.5) : fp32[]\n"
            "%4 scores = multiply(%2, %3) : fp32[8, 4, 4]\n"
            "output out = %4\n");
}

TEST(Graph, MisfitsAreUsageErrorsThatNameTheTypes) {
  Graph graph;
  const Tensor a = input(graph, "a", {DType::f32, {2, 3}});
  const Tensor b = input(graph, "b", {DType::bf16, {2, 3}});
  const Tensor c = input(graph, "c", {DType::f32, {4, 5}});
  const auto message = [](auto build) {
    try {
      build();
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      return error.message();
    }
    return std::string("no error");
  };
  EXPECT_HAS(message([&] { a + b; }), "add(fp32[2, 3], bf16[2, 3])");
  EXPECT_HAS(message([&] { a + c; }), "do not broadcast");
  EXPECT_HAS(message([&] { matmul(a, c); }), "matmul(fp32[2, 3], fp32[4, 5])");
  EXPECT_HAS(message([&] { reshape(a, {7}); }), "as many elements");
  EXPECT_HAS(message([&] { permute(a, {0, 0}); }), "every axis once");
  EXPECT_HAS(message([&] { slice(a, 1, 2, 9); }), "range inside axis 1");
  EXPECT_HAS(message([&] { input(graph, "a", {DType::f32, {1}}); }), "already has");
  EXPECT_HAS(message([&] {
               input(graph, "big", {DType::f32, {int64_t{1} << 40, int64_t{1} << 40}});
             }),
             "2^52");
  EXPECT_HAS(message([&] { input(graph, "none", {DType::f32, {0, 4}}); }), "at least 1");
}

TEST(Graph, RandomGraphsVerify) {
  for (uint64_t seed = 0; seed < 50; ++seed) verify(testing::RandomGraphMaker(seed).make(20).graph);
}

TEST(Layout, ViewsShareStorage) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {2, 3, 4}});
  const Tensor t = transpose(x);
  const Tensor s = slice(t, 1, 1, 4);
  const Tensor split = reshape(x, {6, 2, 2});
  const Tensor merged = reshape(t, {2, 12});
  const std::vector<Layout> all = layouts(graph);
  const auto of = [&](const Tensor& tensor) { return all[graph.index(tensor.value())]; };
  EXPECT_EQ(of(t).storage, x.value());
  EXPECT_EQ(of(t).strides, (Strides{12, 1, 4}));
  EXPECT_EQ(of(s).offset, 1 * 1);
  EXPECT_EQ(of(split).storage, x.value());
  EXPECT_EQ(of(split).strides, (Strides{4, 2, 1}));
  EXPECT_EQ(of(merged).storage, merged.value())
      << "a transposed matrix cannot be flattened in place";
}

TEST(Graph, AViewWithAxesOfOneElementMayBeUpdated) {
  Graph graph;
  const Tensor history = input(graph, "history", {DType::i32, {1, 8}});
  const Tensor next = input(graph, "next", {DType::i32, {1, 1, 1}});
  const Tensor position = input(graph, "position", {DType::i32, {1}});
  graph.mark_output("history", append(reshape(history, {1, 8, 1}), next, position).value());
  verify(graph);
}

TEST(Schedule, FreesAtLastUseAndKeepsInputsAndOutputs) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4}});
  const Tensor a = exp(x);
  const Tensor view = reshape(a, {2, 2});
  const Tensor b = sin(view);
  const Tensor unread = cos(x);
  graph.mark_output("b", b.value());
  const Schedule schedule = eager_schedule(graph);
  std::vector<std::vector<Value>> expected(schedule.steps.size());
  expected[b.value().node] = {a.value()};  // its view is read there for the last time
  expected[unread.value().node] = {unread.value()};
  for (size_t step = 0; step < schedule.steps.size(); ++step)
    EXPECT_EQ(schedule.steps[step].releases, expected[step]) << "step " << step;
}

// No step reads memory that an earlier step released, and everything but inputs and outputs is
// released once.
TEST(Schedule, NeverReadsWhatItFreed) {
  for (uint64_t seed = 0; seed < 200; ++seed) {
    const Graph graph = testing::RandomGraphMaker(seed).make(25).graph;
    const Schedule schedule = eager_schedule(graph);
    std::vector<int> freed(graph.value_count(), 0);
    for (const Step& step : schedule.steps) {
      for (Value value : graph.nodes()[step.node].inputs)
        EXPECT_EQ(freed[graph.index(schedule.layouts[graph.index(value)].storage)], 0);
      for (Value value : step.releases) ++freed[graph.index(value)];
    }
    for (const Output& output : graph.outputs())
      EXPECT_EQ(freed[graph.index(schedule.layouts[graph.index(output.value)].storage)], 0);
    for (int count : freed) EXPECT_LE(count, 1);
  }
}

// A parameter with its gradient and moments, all inputs.
struct Trainable {
  Graph graph;
  AdamWTensors tensors;
  Tensor scalars;

  explicit Trainable(const Shape& shape = {2, 3}) {
    const auto made = [&](const char* name) { return input(graph, name, {DType::f32, shape}); };
    tensors = {made("parameter"), made("gradient"), made("first"), made("second")};
    scalars = input(graph, "scalars", {DType::f32, {kAdamWScalars}});
  }
  AdamWTensors update() { return adamw_update({&tensors, 1}, scalars, {}, {})[0]; }
  std::string problem() {
    try {
      verify(graph);
    } catch (const Error& error) {
      return error.message();
    }
    return "none";
  }
};

TEST(Update, ResultsLieWhereTheInputsWere) {
  Trainable made;
  const AdamWTensors updated = made.update();
  const std::vector<Layout> places = layouts(made.graph);
  const auto storage = [&](const Tensor& x) { return places[made.graph.index(x.value())].storage; };
  EXPECT_EQ(storage(updated.parameter), made.tensors.parameter.value());
  EXPECT_EQ(storage(updated.first_moment), made.tensors.first_moment.value());
  EXPECT_EQ(storage(updated.second_moment), made.tensors.second_moment.value());
  EXPECT_FALSE(owns_memory(made.graph, places, updated.parameter.value()));
  EXPECT_TRUE(runs_kernel(made.graph, places, updated.parameter.value().node));
  EXPECT_EQ(made.problem(), "none");
}

TEST(Update, ReadersOfTheOldValueMustStandBefore) {
  Trainable before;
  before.graph.mark_output("old", exp(before.tensors.parameter).value());
  before.graph.mark_output("new", exp(before.update().parameter).value());
  EXPECT_EQ(before.problem(), "none");

  Trainable after;
  after.update();
  exp(after.tensors.parameter);
  EXPECT_HAS(after.problem(), "reads parameter after it was updated");

  Trainable through_a_view;
  const Tensor old = transpose(through_a_view.tensors.first_moment);
  through_a_view.update();
  exp(old);
  EXPECT_HAS(through_a_view.problem(), "after it was updated");

  Trainable as_output;
  as_output.update();
  as_output.graph.mark_output("stale", as_output.tensors.parameter.value());
  EXPECT_HAS(as_output.problem(), "output stale reads");
}

TEST(Update, ThePositionOfACacheIsReadBeforeItAdvances) {
  const auto problem = [](bool reads_late) {
    Graph graph;
    const Tensor position = input(graph, "position", {DType::i32, {1}});
    const Tensor cache = input(graph, "cache", {DType::f32, {4, 8}});
    const Tensor rows = input(graph, "rows", {DType::f32, {1, 8}});
    if (reads_late) advance(position, 1);
    append(cache, rows, position);
    if (!reads_late) advance(position, 1);
    try {
      verify(graph);
    } catch (const Error& error) {
      return error.message();
    }
    return std::string("none");
  };
  EXPECT_EQ(problem(false), "none");
  EXPECT_HAS(problem(true), "append) reads position after it was updated");
}

TEST(Infer, CachesTakeRowsOfTheirWidthAndOnePosition) {
  Graph graph;
  const Tensor cache = input(graph, "cache", {DType::bf16, {2, 4, 8}});
  const Tensor position = input(graph, "position", {DType::i32, {1}});
  const auto rows = [&](DType dtype, const Shape& shape) {
    return input(graph, "rows" + std::to_string(graph.nodes().size()), {dtype, shape});
  };
  EXPECT_EQ(append(cache, rows(DType::bf16, {2, 9, 8}), position).shape(), cache.shape());
  EXPECT_THROW(append(cache, rows(DType::f32, {2, 1, 8}), position), Error);
  EXPECT_THROW(append(cache, rows(DType::bf16, {1, 1, 8}), position), Error);
  EXPECT_THROW(append(cache, rows(DType::bf16, {2, 1, 7}), position), Error);
  EXPECT_THROW(append(cache, rows(DType::bf16, {2, 8}), position), Error);
  EXPECT_THROW(append(cache, rows(DType::bf16, {2, 1, 8}), rows(DType::i32, {2})), Error);
  EXPECT_THROW(advance(rows(DType::f32, {1}), 1), Error);
  EXPECT_THROW(advance(position, -1), Error);
  EXPECT_EQ(ring_positions(position, 3, 5).shape(), Shape{5});
  EXPECT_EQ(argmax(rows(DType::f32, {3, 2, 7})).type(), (TensorType{DType::i32, {3, 2}}));
  EXPECT_EQ(argmax(rows(DType::f32, {7})).shape().rank(), 0);
  EXPECT_THROW(argmax(rows(DType::i32, {3, 7})), Error);
}

TEST(Update, OneStorageIsUpdatedOnceByANode) {
  Trainable twice;
  twice.tensors.second_moment = twice.tensors.first_moment;
  twice.update();
  EXPECT_HAS(twice.problem(), "reads it twice");

  Trainable own_gradient;
  own_gradient.tensors.gradient = own_gradient.tensors.parameter;
  own_gradient.update();
  EXPECT_HAS(own_gradient.problem(), "reads it twice");
}

TEST(Update, OnlyWholeTensorsAreUpdated) {
  Trainable part;
  const Tensor larger = input(part.graph, "larger", {DType::f32, {4, 3}});
  part.tensors.parameter = slice(larger, 0, 0, 2);
  part.update();
  EXPECT_HAS(part.problem(), "is a part or a broadcast");
  Trainable constant;
  constant.tensors.parameter = expand(scalar(constant.scalars, 1), {2, 3});
  constant.update();
  EXPECT_HAS(constant.problem(), "is a part or a broadcast");
}

TEST(Update, StepsFollowEachOther) {
  Trainable made;
  made.tensors = made.update();
  made.update();
  EXPECT_EQ(made.problem(), "none");
}

TEST(Graph, IndicesAndListsThatDoNotFitAreRefused) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4, 3}});
  const Tensor ids = input(graph, "ids", {DType::i32, {4}});
  EXPECT_THROW(gather(x, x), Error);
  EXPECT_THROW(gather(ids, ids), Error);
  EXPECT_THROW(pick(x, iota(graph, 5)), Error);
  EXPECT_THROW(scatter_add(iota(graph, 3), x, 9), Error);
  EXPECT_THROW(place(ids, reshape(x, {12}), 5), Error);
  EXPECT_THROW(sum_of_squares(std::vector<Tensor>{ids}), Error);
  const Tensor parts[] = {x, transpose(x)};
  EXPECT_THROW(concat(parts, 0), Error);
  EXPECT_THROW(concat(parts, 2), Error);
}

TEST(Infer, AWindowIsNotNegative) {
  Graph graph;
  const Tensor q = input(graph, "q", {DType::f32, {1, 1, 4, 8}});
  const Tensor position = input(graph, "position", {DType::i32, {1}});
  const AttentionSpec spec{.mask = {.causal = true, .window = -1}};
  const auto expect_refused = [&](const auto& add) {
    try {
      add();
      FAIL() << "a window of -1 is accepted";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_NE(error.message().find("the window is -1"), std::string::npos) << error.message();
    }
  };
  expect_refused([&] { attention(q, q, q, spec); });
  expect_refused([&] { cached_attention(q, q, q, position, spec); });
}

TEST(AttentionMask, PairsAreTheSumOfWhatEachQuerySees) {
  std::mt19937 random(3);
  for (int i = 0; i < 3000; ++i) {
    const AttentionMask mask{.causal = random() % 2 == 0,
                             .alignment = random() % 2 == 0
                                              ? AttentionMask::Alignment::top_left
                                              : AttentionMask::Alignment::bottom_right,
                             .window = random() % 3 == 0 ? int64_t(random() % 50) : 0};
    const int64_t queries = random() % 40, keys = random() % 40;
    double pairs = 0;
    for (int64_t query = 0; query < queries; ++query) {
      const KeyRange range = visible_keys(mask, query, queries, keys);
      pairs += static_cast<double>(range.last - range.first);
    }
    EXPECT_EQ(visible_pairs(mask, queries, keys), pairs)
        << mask.causal << ' ' << mask.window << ' ' << queries << ' ' << keys;
  }
  EXPECT_GT(visible_pairs({.causal = true}, int64_t{1} << 40, int64_t{1} << 40), 0x1p78);
}

}  // namespace
}  // namespace ridgeline
