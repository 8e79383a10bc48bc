#include "passes/flash.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

#include "autodiff/gradient.h"
#include "graph/score_function.h"
#include "models/attention.h"
#include "passes/autocast.h"
#include "passes/same_values.h"
#include "passes/small_transformer.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

using testing::count_of;
using testing::expect_same_values;
using testing::kTiny;
using testing::output_of;
using testing::random_inputs;

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// q [.., Sq, D], k and v [.., Sk, D] and what lies between their products.
struct Problem {
  Shape q = {2, 3, 5, 4};
  Shape k = {2, 3, 5, 4};
  DType dtype = DType::f32;
};

struct Positions {
  Tensor query, key;  // fp32, [Sq, 1] and [Sk]
};

Positions positions(const Tensor& scores) {
  const int64_t queries = scores.shape().back(1), keys = scores.shape().back(0);
  Graph& graph = scores.graph();
  return {cast(reshape(iota(graph, queries), {queries, 1}), DType::f32),
          cast(iota(graph, keys), DType::f32)};
}

Tensor hide(const Tensor& visible, const Tensor& scores) {
  return where(visible, scores, scalar(scores, kHidden));
}

template <class F>
Graph attention_with(F f, const Problem& problem = {}) {
  Graph graph;
  const Tensor q = input(graph, "q", {problem.dtype, problem.q});
  const Tensor k = input(graph, "k", {problem.dtype, problem.k});
  const Tensor v = input(graph, "v", {problem.dtype, problem.k});
  const Tensor weights = softmax(f(matmul(q, transpose(k)))).named("weights");
  graph.mark_output("output", matmul(weights, v).named("output").value());
  return graph;
}

AttentionSpec spec_in(const Graph& graph) {
  for (const Node& node : graph.nodes())
    if (node.op == Op::attention) return std::get<AttentionSpec>(node.attributes.detail);
  ADD_FAILURE() << "no attention\n" << to_text(graph);
  return {};
}

// The pass finds attention, and it computes the same, forward and backward.
AttentionSpec expect_found(const Graph& graph) {
  FlashReport report;
  const Graph after = flash(graph, {}, &report);
  EXPECT_EQ(report.refusals.size(), 0u) << report.refusals[0].reason;
  EXPECT_EQ(report.found, std::vector<std::string>{"output"});
  EXPECT_EQ(count_of(after, Op::attention), 1);
  EXPECT_EQ(count_of(after, Op::softmax), 0);
  EXPECT_EQ(count_of(after, Op::matmul), count_of(graph, Op::matmul) - 2);
  const auto with_gradients = [](Graph built) {
    const Tensor output(built, output_of(built, "output"));
    const Cotangent cotangent{output, sin(output)};
    std::vector<Tensor> sources;
    for (Value value : built.inputs()) sources.emplace_back(built, value);
    for (const Tensor& d : gradient({&cotangent, 1}, sources)) built.mark_output("d", d.value());
    return built;
  };
  expect_same_values(with_gradients(graph), with_gradients(after), random_inputs(graph, 7), 1e-12);
  return spec_in(after);
}

std::string expect_refused(const Graph& graph) {
  FlashReport report;
  const Graph after = flash(graph, {}, &report);
  EXPECT_EQ(count_of(after, Op::attention), 0);
  EXPECT_EQ(report.found.size(), 0u);
  expect_same_values(graph, after, random_inputs(graph, 7), 0);
  if (report.refusals.size() != 1) {
    ADD_FAILURE() << report.refusals.size() << " refusals";
    return {};
  }
  EXPECT_EQ(report.refusals[0].node, "weights");
  return report.refusals[0].reason;
}

TEST(Flash, ThePlainFormOfTheStudy) {
  for (bool causal : {false, true}) {
    Graph graph;
    const TensorType type{DType::f32, {2, 6, 4}};
    const Tensor q = input(graph, "q", type), k = input(graph, "k", type);
    const Tensor output = plain_attention(q, k, input(graph, "v", type), causal);
    graph.mark_output("output", output.value());
    const AttentionSpec spec = expect_found(graph);
    EXPECT_EQ(spec.scale, 0.5);
    EXPECT_EQ(spec.mask, AttentionMask{.causal = causal});
  }
}

TEST(Flash, FactorsMultiply) {
  EXPECT_EQ(expect_found(attention_with([](Tensor s) { return s; })).scale, 1);
  EXPECT_EQ(expect_found(attention_with([](Tensor s) { return -(s * -3) / 2; })).scale, 1.5);
  EXPECT_EQ(expect_found(attention_with([](Tensor s) {
              return expand(scalar(s, 0.25), {5, 5}) * cast(cast(s, DType::bf16), DType::f32);
            })).scale,
            0.25);
}

TEST(Flash, CausalMasksFromEitherCorner) {
  using Alignment = AttentionMask::Alignment;
  const auto causal = [](double shift) {
    return [shift](Tensor s) {
      const auto [query, key] = positions(s);
      return hide(less_equal(key, query + shift), s) * 0.5;
    };
  };
  const Problem longer{.q = {2, 3, 4, 4}, .k = {2, 3, 7, 4}};
  const Problem shorter{.q = {2, 3, 7, 4}, .k = {2, 3, 4, 4}};
  EXPECT_EQ(expect_found(attention_with(causal(0))).mask, (AttentionMask{.causal = true}));
  EXPECT_EQ(expect_found(attention_with(causal(0), longer)).mask, (AttentionMask{.causal = true}));
  EXPECT_EQ(expect_found(attention_with(causal(0), shorter)).mask, (AttentionMask{.causal = true}));
  EXPECT_EQ(expect_found(attention_with(causal(3), longer)).mask,
            (AttentionMask{.causal = true, .alignment = Alignment::bottom_right}));
  EXPECT_EQ(expect_found(attention_with(causal(9), longer)).mask, AttentionMask{});
  // One query, as in decoding: it sees all keys.
  const Problem decode{.q = {2, 3, 1, 4}, .k = {2, 3, 7, 4}};
  EXPECT_EQ(expect_found(attention_with(causal(6), decode)).mask, AttentionMask{});
  EXPECT_EQ(expect_found(attention_with(causal(0), decode)).mask, (AttentionMask{.causal = true}));
  const Problem one_key{.q = {2, 3, 4, 4}, .k = {2, 3, 1, 4}};
  EXPECT_EQ(expect_found(attention_with(causal(0), one_key)).mask, AttentionMask{});
}

TEST(Flash, OtherWaysToWriteAMask) {
  const AttentionMask causal{.causal = true};
  const auto mask_when = [](auto condition) {
    return expect_found(attention_with([&](Tensor s) {
             const auto [query, key] = positions(s);
             return hide(condition(query, key), s);
           }))
        .mask;
  };
  EXPECT_EQ(mask_when([](Tensor q, Tensor k) { return less(k, q + 1); }), causal);
  EXPECT_EQ(mask_when([](Tensor q, Tensor k) { return less(k - q, scalar(q, 0.5)); }), causal);
  EXPECT_EQ(mask_when([](Tensor q, Tensor k) { return less_equal(-q, -k); }), causal);
  EXPECT_EQ(mask_when([](Tensor q, Tensor k) {
              return less_equal(reshape(k - q, {1, 1, 5, 5}), scalar(q, 0));
            }),
            causal);
  EXPECT_EQ(mask_when([](Tensor q, Tensor k) {  // rows and columns exchanged twice
              return less_equal(transpose(reshape(k, {5, 1}) - reshape(q, {5})), scalar(q, 0));
            }),
            causal);
  EXPECT_EQ(mask_when([](Tensor q, Tensor k) {
              return expand(less_equal(k, q), {2, 3, 5, 5});
            }),
            causal);
  // What is hidden instead of what is shown.
  EXPECT_EQ(expect_found(attention_with([](Tensor s) {
              const auto [query, key] = positions(s);
              return where(less(query, key), scalar(s, kHidden), s);
            })).mask,
            causal);
}

TEST(Flash, Windows) {
  for (int64_t window : {1, 2, 3, 9}) {
    for (int64_t keys : {5, 7}) {
      const int64_t shift = keys - 5;
      const Graph graph = attention_with(
          [&](Tensor s) {
            const auto [query, key] = positions(s);
            const Tensor at = query + static_cast<double>(shift);
            return hide(less(at - static_cast<double>(window), key),
                        hide(less_equal(key, at), s) * 2);
          },
          {.k = {2, 3, keys, 4}});
      const AttentionMask mask = expect_found(graph).mask;
      EXPECT_TRUE(mask.causal);
      EXPECT_EQ(mask.window, window < keys ? window : 0);
      EXPECT_EQ(mask.alignment == AttentionMask::Alignment::bottom_right, keys != 5);
    }
  }
}

// Documents side by side: positions that start again are no straight line, however they are
// repeated.
TEST(Flash, PositionsThatStartAgainAreNoBand) {
  constexpr int64_t kDocuments = 2, kLength = 3;
  const Problem problem{.q = {2, 3, kDocuments * kLength, 4}, .k = {2, 3, kDocuments * kLength, 4}};
  const auto again = [](const Tensor& s) {
    const Tensor once = cast(iota(s.graph(), kLength), DType::f32);
    return reshape(expand(once, {kDocuments, kLength}), {kDocuments * kLength});
  };
  const auto each_again = [](const Tensor& s) {  // 0, 0, 1, 1, ...
    const Tensor once = reshape(cast(iota(s.graph(), kLength), DType::f32), {kLength, 1});
    return reshape(expand(once, {kLength, kDocuments}), {kDocuments * kLength});
  };
  const auto causal = [](auto positions_of) {
    return [positions_of](const Tensor& s) {
      const Tensor key = positions_of(s);
      return hide(less_equal(key, reshape(key, {key.shape()[0], 1})), s);
    };
  };
  EXPECT_EQ(expect_found(attention_with(causal(again), problem)).mask, AttentionMask{});
  EXPECT_EQ(expect_found(attention_with(causal(each_again), problem)).mask, AttentionMask{});
}

// Whatever is compared with whatever: what is found computes the same unless a query sees nothing;
// where that is known, it is refused.
TEST(Flash, RandomMasksAreUnderstoodOrRefused) {
  std::mt19937_64 random(17);
  const auto below = [&](int64_t bound) {
    return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
  };
  size_t found = 0, refused = 0, unknown = 0;
  for (int trial = 0; trial < 600; ++trial) {
    const int64_t queries = 1 + below(6), keys = below(2) == 0 ? queries : 1 + below(6);
    const Problem problem{.q = {1, 2, queries, 3}, .k = {1, 2, keys, 3}};
    const Graph graph = attention_with(
        [&](Tensor s) {
          const auto [query, key] = positions(s);
          for (int64_t count = 1 + below(2); count > 0; --count) {
            const bool from_corner = below(2) == 0;
            const double shift =
                static_cast<double>(from_corner ? (keys - queries) * below(2) : below(9) - 4);
            const Tensor left = below(2) == 0 ? key - shift : key - query - shift;
            const Tensor right = left.shape().rank() == 1 ? query : scalar(s, 0);
            const bool turned_around = below(3) == 0;
            const Tensor& a = turned_around ? right : left;
            const Tensor& b = turned_around ? left : right;
            const Tensor condition = below(2) == 0 ? less(a, b) : less_equal(a, b);
            const Tensor hidden = scalar(s, kHidden);
            s = below(3) == 0 ? where(condition, hidden, s) : where(condition, s, hidden);
          }
          return s;
        },
        problem);
    FlashReport report;
    const Graph after = flash(graph, {}, &report);
    found += report.found.size();
    refused += report.refusals.size();
    const InterpreterInputs inputs = random_inputs(graph, 5);
    const Value output = output_of(graph, "output");
    bool blind = false;
    for (double value : interpret(graph, inputs)[graph.index(output)])
      blind = blind || std::isnan(value);
    if (blind && report.refusals.empty()) ++unknown;
    if (blind) continue;
    expect_same_values(graph, after, inputs, 1e-12);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(found, 100u);
  EXPECT_GT(refused, 100u);
  EXPECT_LT(unknown, 60u);  // with one query or key, positions do not show
  EXPECT_EQ(found + refused, 600u);
}

// Whatever is pointwise is applied inside of the kernels, with the gradients of what enters there.
TEST(Flash, AnyPointwiseFunction) {
  const auto enters = [](Tensor s, const char* name, const Shape& shape, DType dtype = DType::f32) {
    return input(s.graph(), name, {dtype, shape});
  };
  const auto expect_function = [](auto f, const Problem& problem = {}) {
    const Graph graph = attention_with(f, problem);
    const AttentionSpec spec = expect_found(graph);
    EXPECT_NE(spec.function, nullptr);
    EXPECT_EQ(spec.scale, 1);
    return spec;
  };
  expect_function([](Tensor s) { return tanh(s / 30) * 30; });  // soft cap
  expect_function([](Tensor s) { return s * -0.5; });
  expect_function([](Tensor s) { return s * sigmoid(s) + exp(sin(s)); });  // nobody named this
  expect_function([&](Tensor s) { return s + enters(s, "bias", {5, 5}); });
  expect_function([&](Tensor s) { return s + enters(s, "bias", {3, 5, 5}) * 0.5; });
  expect_function([&](Tensor s) { return s * enters(s, "heat", {3, 1, 1}); });
  expect_function([&](Tensor s) { return enters(s, "row", {2, 1, 5, 1}) - s * 2; });
  expect_function([&](Tensor s) { return s / exp(enters(s, "column", {5})); });
  expect_function([&](Tensor s) {  // two biases, one of them twice
    const Tensor bias = enters(s, "bias", {2, 3, 5, 5});
    return s * bias + bias * enters(s, "heat", {1});
  });
  const AttentionSpec alibi = expect_function([&](Tensor s) {
    const auto [query, key] = positions(s);
    const Tensor slopes = enters(s, "slopes", {3, 1, 1});
    return hide(less_equal(key, query), s * 0.5 + (key - query) * slopes);
  });
  EXPECT_EQ(alibi.mask, AttentionMask{.causal = true});
  expect_function([](Tensor s) {
    const auto [query, key] = positions(s);
    return where(less_equal(key, query), s, scalar(s, -1e9));
  });
  expect_function([](Tensor s) {  // keys below 3, whatever the query
    return hide(less(positions(s).key, scalar(s, 3)), s);
  });
  expect_function([](Tensor s) {  // up to two keys ahead
    const auto [query, key] = positions(s);
    return hide(less_equal(key, query + 2), s);
  });
  expect_function([](Tensor s) {  // a band around the query
    const auto [query, key] = positions(s);
    return hide(less(query - 2, key), hide(less(key, query + 2), s));
  });
  expect_function([&](Tensor s) {  // one of many products enters beside the scores
    const Tensor table = enters(s, "table", {3, 2, 5});
    return s + matmul(enters(s, "distance", {2, 3, 5, 2}), table);
  });
  expect_function(
      [&](Tensor s) {
        return s + enters(s, "bias", {2, 1, 5, 5});
      },
      {.q = {2, 3, 5, 4}, .k = {2, 1, 5, 4}});
  expect_function(
      [&](Tensor s) {
        return s * enters(s, "heat", {5, 2, 1, 1, 1});
      },
      {.q = {5, 2, 3, 4, 4}, .k = {5, 2, 3, 6, 4}});
  expect_function([&](Tensor s) { return s + enters(s, "bias", {70}); },
                  {.q = {1, 2, 66, 3}, .k = {1, 2, 70, 3}});
  expect_function(
      [&](Tensor s) {
        return s * enters(s, "heat", {66, 1});
      },
      {.q = {1, 2, 66, 3}, .k = {1, 2, 70, 3}});
}

// So that kernels need not look at the condition again for the gradient.
TEST(Flash, AConditionThatHidesIsNoPartOfAGradientThatIsAConstant) {
  const auto multiple = [](auto f) {
    return constant_score_gradient(*expect_found(attention_with(f)).function);
  };
  const auto band = [](Tensor s, Tensor x) {
    const auto [query, key] = positions(s);
    return hide(less(query - 2, key), hide(less(key, query + 2), x));
  };
  const auto table = [](Tensor s) { return input(s.graph(), "table", {DType::f32, {5, 5}}); };
  EXPECT_EQ(multiple([&](Tensor s) { return band(s, s * 0.5); }), 0.5);
  EXPECT_EQ(multiple([&](Tensor s) { return band(s, s * -0.5 * 3 + table(s)); }), -1.5);
  EXPECT_EQ(multiple([&](Tensor s) { return s + table(s); }), 1);
  EXPECT_EQ(multiple([&](Tensor s) { return band(s, tanh(s)); }), std::nullopt);
  EXPECT_EQ(multiple([&](Tensor s) { return band(s, s * table(s)); }), std::nullopt);
}

TEST(Flash, RefusesWhatTheKernelsCannotSay) {
  const auto reason = [](auto f, const Problem& problem = {}) {
    return expect_refused(attention_with(f, problem));
  };
  const auto has = [](const std::string& text, std::string_view part) { EXPECT_HAS(text, part); };
  has(reason([](Tensor s) { return s - max(s, {-1}); }), "read elsewhere");
  has(reason([](Tensor s) { return mean(s, {0}) + expand(scalar(s, 0), s.shape()); }),
      "no product");
  has(reason([](Tensor s) { return cast(cast(s, DType::i32), DType::f32); }), "i32");
  has(reason([](Tensor s) {
        for (int i = 0; i < 7; ++i)
          s = s * input(s.graph(), "x" + std::to_string(i), {DType::f32, {5}});
        return s;
      }),
      "7 tensors");
  has(reason([](Tensor s) {
        for (int i = 0; i < 70; ++i) s = sin(s);
        return s;
      }),
      "64 operations");
  has(reason(
          [](Tensor s) {  // the first queries stand before the first key
            const auto [query, key] = positions(s);
            return hide(less_equal(key, query - 2), s);
          },
          {.q = {2, 3, 7, 4}}),
      "sees no key");
  has(reason([](Tensor s) {
        s.graph().mark_output("scores", s.value());
        return s * 0.5;
      }),
      "read elsewhere");
  has(reason([](Tensor s) {
        s.graph().mark_output("scores", s.value());
        return tanh(s);
      }),
      "read elsewhere");
  has(reason([](Tensor s) { return s; }, {.q = {1, 1, 2, 300}, .k = {1, 1, 2, 300}}), "300 wide");
}

TEST(Flash, RefusesWeightsThatAreWanted) {
  Graph graph = attention_with([](Tensor s) { return s; });
  for (uint32_t number = 0; number < graph.nodes().size(); ++number)
    if (graph.nodes()[number].name == "weights") graph.mark_output("weights", {number, 0});
  EXPECT_HAS(expect_refused(graph), "read elsewhere");
}

TEST(Flash, SoftmaxOfNoProductIsRefused) {
  Graph graph;
  const Tensor x = input(graph, "x", {DType::f32, {4, 4}});
  graph.mark_output("output", matmul(softmax(x).named("weights"), x).value());
  EXPECT_HAS(expect_refused(graph), "no product");
}

// Keys and values that stand for groups of query heads, in every way to write that.
TEST(Flash, GroupedHeads) {
  constexpr int64_t kBatch = 2, kKeyHeads = 2, kGroup = 3, kRows = 5, kWidth = 4;
  const auto graph_with = [&](Shape q_shape, Shape k_shape, auto view_of_keys) {
    Graph graph;
    const Tensor q = input(graph, "q", {DType::f32, q_shape});
    const Tensor k = view_of_keys(input(graph, "k", {DType::f32, k_shape}));
    const Tensor v = view_of_keys(input(graph, "v", {DType::f32, k_shape}));
    graph.mark_output("output",
                      matmul(softmax(matmul(q, transpose(k))), v).named("output").value());
    return graph;
  };
  const Shape all = {kBatch, kKeyHeads * kGroup, kRows, kWidth};
  const auto heads_read = [&](const Graph& graph) {
    expect_found(graph);
    const Graph after = flash(graph);
    for (const Node& node : after.nodes())
      if (node.op == Op::attention) {
        EXPECT_EQ(after.type(node.inputs[1]), after.type(node.inputs[2]));
        return after.type(node.inputs[1]).shape[1];
      }
    return int64_t{0};
  };
  // Repeated after the heads were moved in front,
  EXPECT_EQ(heads_read(graph_with(
                all, {kBatch, kKeyHeads, kRows, kWidth},
                [&](Tensor x) {
                  const Tensor own = reshape(x, {kBatch, kKeyHeads, 1, kRows, kWidth});
                  return reshape(expand(own, {kBatch, kKeyHeads, kGroup, kRows, kWidth}), all);
                })),
            kKeyHeads);
  // before,
  EXPECT_EQ(heads_read(graph_with(
                all, {kBatch, kRows, kKeyHeads, kWidth},
                [&](Tensor x) {
                  const Tensor own = reshape(x, {kBatch, kRows, kKeyHeads, 1, kWidth});
                  const Tensor repeated = expand(own, {kBatch, kRows, kKeyHeads, kGroup, kWidth});
                  return permute(reshape(repeated, {kBatch, kRows, kKeyHeads * kGroup, kWidth}),
                                 {0, 2, 1, 3});
                })),
            kKeyHeads);
  // by broadcasting,
  EXPECT_EQ(
      heads_read(graph_with({kBatch, kKeyHeads, kGroup, kRows, kWidth},
                            {kBatch, kKeyHeads, 1, kRows, kWidth}, [](Tensor x) { return x; })),
      kKeyHeads);
  // one for all heads,
  EXPECT_EQ(heads_read(graph_with(all, {kBatch, 1, kRows, kWidth}, [](Tensor x) { return x; })), 1);
  EXPECT_EQ(heads_read(graph_with(all, {kBatch, 1, kRows, kWidth},
                                  [&](Tensor x) { return expand(x, all); })),
            1);
  // and in another order of repetition, which the kernels do not know: all heads are read.
  EXPECT_EQ(heads_read(graph_with(
                all, {kBatch, kKeyHeads, kRows, kWidth},
                [&](Tensor x) {
                  const Tensor own = reshape(x, {kBatch, 1, kKeyHeads, kRows, kWidth});
                  return reshape(expand(own, {kBatch, kGroup, kKeyHeads, kRows, kWidth}), all);
                })),
            kKeyHeads * kGroup);
}

TEST(Flash, AnyLeadingAxes) {
  const auto plain = [](Tensor s) { return s * 0.5; };
  for (const Problem& problem :
       std::vector<Problem>{{.q = {5, 4}, .k = {6, 4}},
                            {.q = {3, 5, 4}, .k = {3, 6, 4}},
                            {.q = {3, 5, 4}, .k = {6, 4}},
                            {.q = {5, 4}, .k = {3, 6, 4}},
                            {.q = {2, 3, 5, 4}, .k = {6, 4}},
                            {.q = {2, 3, 5, 4}, .k = {3, 6, 4}},
                            {.q = {2, 3, 5, 4}, .k = {1, 3, 6, 4}},
                            {.q = {2, 1, 5, 4}, .k = {1, 3, 6, 4}},
                            {.q = {2, 3, 2, 5, 4}, .k = {2, 1, 2, 6, 4}},
                            {.q = {2, 3, 2, 3, 5, 4}, .k = {2, 3, 1, 1, 6, 4}}})
    expect_found(attention_with(plain, problem));
}

TEST(Flash, FindsEveryLayerOfATransformer) {
  const Graph graph = testing::forward_with_loss(kTiny, AttentionForm::plain);
  const Graph expected = testing::forward_with_loss(kTiny, AttentionForm::fused);
  for (bool mixed : {false, true}) {
    const Graph before = mixed ? autocast(graph) : graph;
    FlashReport report;
    const Graph after = flash(before, {}, &report);
    EXPECT_EQ(report.found.size(), static_cast<size_t>(kTiny.layers));
    EXPECT_EQ(report.refusals.size(), 0u);
    EXPECT_EQ(count_of(after, Op::softmax), 0);
    EXPECT_EQ(count_of(after, Op::where), 0);
    expect_same_values(before, after, random_inputs(graph, 3, kTiny.vocabulary), 1e-12);
    const Graph fused = mixed ? autocast(expected) : expected;
    EXPECT_EQ(after.nodes().size(), fused.nodes().size()) << to_text(after);
  }
}

TEST(Flash, AutocastAttentionKeepsItsDtype) {
  const Graph before = autocast(attention_with([](Tensor s) { return s * 0.3; }));
  const Graph after = flash(before);
  EXPECT_EQ(spec_in(after).scale, 0.3);
  EXPECT_EQ(after.type(output_of(after, "output")).dtype, DType::bf16);
}

TEST(Flash, TheBackwardAlgorithmIsHandedOn) {
  const Graph graph = attention_with([](Tensor s) { return s; });
  EXPECT_EQ(spec_in(flash(graph, {.backward = BackwardAlgorithm::two_pass})).backward,
            BackwardAlgorithm::two_pass);
}

}  // namespace
}  // namespace ridgeline
