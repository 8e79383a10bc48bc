// Score functions through the C interface: values and all gradients against fp64, and what is
// refused.
#include <gtest/gtest.h>
#include <ridgeline/attention.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "api/described.h"
#include "kernels/flash_test_support.h"
#include "support/expect.h"

namespace ridgeline::score_test {
namespace {

using api_testing::ContextPointer;
using api_testing::cpu_context;
using flash_testing::attend;
using flash_testing::distance;
using flash_testing::largest;
using flash_testing::ScoreFunction;

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct DestroyFunction {
  void operator()(rl_score_function* function) const { rl_score_function_destroy(function); }
};
using FunctionPointer = std::unique_ptr<rl_score_function, DestroyFunction>;

FunctionPointer function_of(const std::vector<rl_score_node>& nodes) {
  rl_score_function* function = nullptr;
  EXPECT_EQ(rl_score_function_create(nodes.data(), nodes.size(), &function), RL_OK)
      << rl_last_error();
  return FunctionPointer(function);
}

// A tensor of floats with its description.
struct Floats {
  std::vector<int64_t> shape;
  std::vector<float> values;
  rl_tensor tensor = {};

  explicit Floats(std::vector<int64_t> sizes) : shape(std::move(sizes)) {
    size_t count = 1;
    for (int64_t size : shape) count *= static_cast<size_t>(size);
    values.resize(count);
    tensor = {values.data(),
              {RL_CPU, 0},
              static_cast<int32_t>(shape.size()),
              {RL_FLOAT, 32, 1},
              shape.data(),
              nullptr,
              0};
  }
  Floats(const Floats&) = delete;
  // The element at [b, h, i, j], broadcast.
  size_t at(int64_t b, int64_t h, int64_t i, int64_t j) const {
    const int64_t place[] = {b, h, i, j};
    size_t index = 0;
    for (size_t axis = 0; axis < 4; ++axis)
      index = index * static_cast<size_t>(shape[axis]) +
              static_cast<size_t>(shape[axis] == 1 ? 0 : place[axis]);
    return index;
  }
};

// Both calls on the same tensors, without a score function yet.
struct Calls {
  rl_attention_forward_params forward = {};
  rl_attention_backward_params backward = {};

  Calls(const Floats& q, const Floats& k, const Floats& v, Floats& out, Floats& lse) {
    forward.size = sizeof forward;
    backward.size = sizeof backward;
    forward.q = backward.q = &q.tensor;
    forward.k = backward.k = &k.tensor;
    forward.v = backward.v = &v.tensor;
    forward.out = &out.tensor;
    backward.out = &out.tensor;
    forward.log_sum_exp = &lse.tensor;
    backward.log_sum_exp = &lse.tensor;
  }
  void differentiate(const Floats& d_out, Floats& d_q, Floats& d_k, Floats& d_v) {
    backward.d_out = &d_out.tensor;
    backward.d_q = &d_q.tensor;
    backward.d_k = &d_k.tensor;
    backward.d_v = &d_v.tensor;
  }
  void take(const rl_score_function* function, const std::vector<const rl_tensor*>& operands) {
    forward.score = backward.score = function;
    forward.operands = backward.operands = operands.data();
    forward.operand_count = backward.operand_count = operands.size();
  }
};

constexpr int64_t kBatch = 2, kHeads = 4, kKeyHeads = 2, kQueries = 70, kKeys = 67, kWidth = 16;

// What f and its derivatives are at one score.
struct Local {
  double value;
  double d_score;
  std::vector<double> d_operands;
};
using Formula = std::function<Local(double score, int64_t b, int64_t h, int64_t i, int64_t j,
                                    const std::vector<double>& operands)>;

struct Case {
  std::vector<rl_score_node> nodes;
  std::vector<std::vector<int64_t>> operands;
  Formula formula;
};

// Compares what the library gives with attention by its definition.
void expect_right(const Case& test) {
  const FunctionPointer function = function_of(test.nodes);
  ASSERT_NE(function, nullptr);
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  const std::vector<int64_t> queries = {kBatch, kHeads, kQueries, kWidth},
                             keys = {kBatch, kKeyHeads, kKeys, kWidth};
  Floats q(queries), k(keys), v(keys), out(queries), lse({kBatch, kHeads, kQueries}),
      d_out(queries), d_q(queries), d_k(keys), d_v(keys);
  std::vector<std::unique_ptr<Floats>> operands, d_operands;
  std::vector<const rl_tensor*> operand_tensors, gradient_tensors;
  for (const auto& shape : test.operands) {
    operands.push_back(std::make_unique<Floats>(shape));
    d_operands.push_back(std::make_unique<Floats>(shape));
    for (float& value : operands.back()->values) value = 0.5f * normal(random);
    operand_tensors.push_back(&operands.back()->tensor);
    gradient_tensors.push_back(&d_operands.back()->tensor);
  }
  for (Floats* tensor : {&q, &k, &v, &d_out})
    for (float& value : tensor->values) value = normal(random);

  const ContextPointer context = cpu_context(2);
  Calls calls(q, k, v, out, lse);
  calls.differentiate(d_out, d_q, d_k, d_v);
  calls.take(function.get(), operand_tensors);
  calls.backward.d_operands = gradient_tensors.data();
  ASSERT_EQ(rl_attention_forward(context.get(), &calls.forward), RL_OK) << rl_last_error();
  ASSERT_EQ(rl_attention_backward(context.get(), &calls.backward), RL_OK) << rl_last_error();

  const auto doubles = [](const Floats& x) {
    return std::vector<double>(x.values.begin(), x.values.end());
  };
  std::vector<Local> local(kBatch * kHeads * kQueries * kKeys);
  const auto local_at = [&](int64_t head, int64_t i, int64_t j) -> Local& {
    return local[static_cast<size_t>((head * kQueries + i) * kKeys + j)];
  };
  std::vector<std::vector<double>> want_operands;
  for (const auto& each : operands) want_operands.emplace_back(each->values.size());
  const ScoreFunction formula = {
      [&](int64_t head, int64_t i, int64_t j, double score) {
        const int64_t b = head / kHeads, h = head % kHeads;
        std::vector<double> at;
        for (const auto& each : operands) at.push_back(each->values[each->at(b, h, i, j)]);
        return (local_at(head, i, j) = test.formula(score, b, h, i, j, at)).value;
      },
      [&](int64_t head, int64_t i, int64_t j, double d_value) {
        const Local& here = local_at(head, i, j);
        for (size_t o = 0; o < here.d_operands.size(); ++o)
          want_operands[o][operands[o]->at(head / kHeads, head % kHeads, i, j)] +=
              d_value * here.d_operands[o];
        return d_value * here.d_score;
      }};
  const auto want = attend<double>(
      {.batch = kBatch,
       .heads = kHeads,
       .key_heads = kKeyHeads,
       .queries = kQueries,
       .keys = kKeys,
       .head_dim = kWidth},
      {doubles(q), doubles(k), doubles(v), doubles(d_out)}, [](double x) { return x; }, formula);
  EXPECT_LT(distance(doubles(out), want.out), 2e-5);
  const auto expect_close = [&](const Floats& got, const std::vector<double>& wanted) {
    EXPECT_LT(distance(doubles(got), wanted), 3e-5 * std::max(1.0, largest(wanted)));
  };
  expect_close(d_q, want.d_q);
  expect_close(d_k, want.d_k);
  expect_close(d_v, want.d_v);
  for (size_t o = 0; o < operands.size(); ++o) expect_close(*d_operands[o], want_operands[o]);
}

constexpr int kCap = 3;

TEST(LibraryScores, CapSoftly) {
  expect_right({{{RL_SCORE, {}, 0},
                 {RL_SCORE_CONSTANT, {}, kCap},
                 {RL_SCORE_DIVIDE, {0, 1}, 0},
                 {RL_SCORE_TANH, {2}, 0},
                 {RL_SCORE_MULTIPLY, {3, 1}, 0}},
                {},
                [](double s, int64_t, int64_t, int64_t, int64_t, const std::vector<double>&) {
                  const double t = std::tanh(s / kCap);
                  return Local{kCap * t, 1 - t * t, {}};
                }});
}

// ALiBi with learned slopes: their gradient is a sum over batches, queries and keys.
TEST(LibraryScores, AddADistanceTimesALearnedSlope) {
  expect_right({{{RL_SCORE, {}, 0},
                 {RL_SCORE_OPERAND, {0}, 0},
                 {RL_SCORE_KEY, {}, 0},
                 {RL_SCORE_QUERY, {}, 0},
                 {RL_SCORE_SUBTRACT, {2, 3}, 0},
                 {RL_SCORE_ABS, {4}, 0},
                 {RL_SCORE_CONSTANT, {}, 0.01},
                 {RL_SCORE_MULTIPLY, {5, 6}, 0},
                 {RL_SCORE_MULTIPLY, {1, 7}, 0},
                 {RL_SCORE_ADD, {0, 8}, 0}},
                {{1, kHeads, 1, 1}},
                [](double s, int64_t, int64_t, int64_t i, int64_t j, const std::vector<double>& o) {
                  const double distance = 0.01 * std::fabs(static_cast<double>(j - i));
                  return Local{s + o[0] * distance, 1, {distance}};
                }});
}

// One full table, one per query, one per batch and key.
TEST(LibraryScores, TakeTablesOfEveryShape) {
  expect_right({{{RL_SCORE, {}, 0},
                 {RL_SCORE_OPERAND, {0}, 0},
                 {RL_SCORE_OPERAND, {1}, 0},
                 {RL_SCORE_OPERAND, {2}, 0},
                 {RL_SCORE_ADD, {0, 1}, 0},
                 {RL_SCORE_MULTIPLY, {2, 3}, 0},
                 {RL_SCORE_SUBTRACT, {4, 5}, 0}},
                {{1, kHeads, kQueries, kKeys}, {1, 1, kQueries, 1}, {kBatch, 1, 1, kKeys}},
                [](double s, int64_t, int64_t, int64_t, int64_t, const std::vector<double>& o) {
                  return Local{s + o[0] - o[1] * o[2], 1, {1, -o[2], -o[1]}};
                }});
}

// A window with sinks, of the first two batches and heads by their numbers, all conditions in use;
// and query 5 sees nothing at all.
TEST(LibraryScores, HideKeysByConditions) {
  expect_right(
      {{{RL_SCORE, {}, 0},                    // 0
        {RL_SCORE_KEY, {}, 0},                // 1
        {RL_SCORE_QUERY, {}, 0},              // 2
        {RL_SCORE_CONSTANT, {}, 4},           // 3
        {RL_SCORE_LESS, {1, 3}, 0},           // 4: a sink
        {RL_SCORE_SUBTRACT, {2, 1}, 0},       // 5
        {RL_SCORE_CONSTANT, {}, 20},          // 6
        {RL_SCORE_LESS_EQUAL, {5, 6}, 0},     // 7: near
        {RL_SCORE_GREATER_EQUAL, {2, 1}, 0},  // 8: not later, as integers
        {RL_SCORE_AND, {7, 8}, 0},            // 9
        {RL_SCORE_OR, {4, 9}, 0},             // 10
        {RL_SCORE_CONSTANT, {}, 5},           // 11
        {RL_SCORE_NOT_EQUAL, {2, 11}, 0},     // 12
        {RL_SCORE_AND, {10, 12}, 0},          // 13
        {RL_SCORE_CONSTANT, {}, -kInfinity},  // 14
        {RL_SCORE_BATCH, {}, 0},              // 15
        {RL_SCORE_HEAD, {}, 0},               // 16
        {RL_SCORE_MAXIMUM, {15, 16}, 0},      // 17
        {RL_SCORE_MINIMUM, {0, 17}, 0},       // 18
        {RL_SCORE_WHERE, {13, 18, 14}, 0}},
       {},
       [](double s, int64_t b, int64_t h, int64_t i, int64_t j, const std::vector<double>&) {
         const bool shown = (j < 4 || (i - j <= 20 && j <= i)) && i != 5;
         const auto most = static_cast<double>(std::max(b, h));
         if (!shown) return Local{-kInfinity, 0, {}};
         return Local{std::min(s, most), s < most ? 1.0 : 0.0, {}};
       }});
}

// Integer and boolean operands: documents by number, and a table of keys that are padding. Numbers
// that fp32 cannot tell apart are other documents.
TEST(LibraryScores, ReadIntegersAndBooleans) {
  const auto documents_that = [](int32_t compare) {
    return function_of({{RL_SCORE, {}, 0},
                        {RL_SCORE_INT_OPERAND, {1}, 0},
                        {RL_SCORE_INT_OPERAND, {0}, 0},
                        {RL_SCORE_BOOL_OPERAND, {2}, 0},
                        {compare, {1, 2}, 0},
                        {RL_SCORE_NOT, {3}, 0},
                        {RL_SCORE_AND, {4, 5}, 0},
                        {RL_SCORE_CONSTANT, {}, -kInfinity},
                        {RL_SCORE_WHERE, {6, 0, 7}, 0}});
  };
  const FunctionPointer same = documents_that(RL_SCORE_EQUAL);
  constexpr int64_t kLength = 6;
  std::vector<int32_t> documents(kLength);
  std::vector<uint8_t> padding = {0, 0, 0, 0, 1, 0};
  const int64_t rows[] = {1, 1, kLength, 1}, columns[] = {1, 1, 1, kLength};
  const rl_tensor of_queries = {
      documents.data(), {RL_CPU, 0}, 4, {RL_INT, 32, 1}, rows, nullptr, 0};
  const rl_tensor of_keys = {documents.data(), {RL_CPU, 0}, 4, {RL_INT, 32, 1},
                             columns,          nullptr,     0};
  const rl_tensor padded = {padding.data(), {RL_CPU, 0}, 4, {RL_BOOL, 8, 1}, columns, nullptr, 0};
  const rl_tensor* operands[] = {&of_queries, &of_keys, &padded};
  Floats q({1, 1, kLength, 4}), k({1, 1, kLength, 4}), v({1, 1, kLength, 4}),
      out({1, 1, kLength, 4});
  for (size_t i = 0; i < v.values.size(); ++i) v.values[i] = static_cast<float>(i / 4);
  const ContextPointer context = cpu_context(1);
  rl_attention_forward_params forward = {};
  forward.size = sizeof forward;
  forward.q = &q.tensor;
  forward.k = &k.tensor;
  forward.v = &v.tensor;
  forward.out = &out.tensor;
  forward.operands = operands;
  forward.operand_count = 3;
  const auto expect_means = [&](const FunctionPointer& function, const std::vector<float>& want) {
    forward.score = function.get();
    for (const int32_t first : {0, 1 << 24, INT32_MAX - 2, INT32_MIN}) {
      for (size_t i = 0; i < kLength; ++i) documents[i] = first + std::array{0, 0, 1, 1, 1, 2}[i];
      ASSERT_EQ(rl_attention_forward(context.get(), &forward), RL_OK) << rl_last_error();
      for (size_t i = 0; i < kLength; ++i)
        EXPECT_FLOAT_EQ(out.values[4 * i], want[i]) << i << " from " << first;
    }
  };
  // Means of the keys of the query's document, of these and earlier ones, and of earlier ones.
  expect_means(same, {0.5f, 0.5f, 2.5f, 2.5f, 2.5f, 5});
  expect_means(documents_that(RL_SCORE_LESS_EQUAL), {0.5f, 0.5f, 1.5f, 1.5f, 1.5f, 2.2f});
  expect_means(documents_that(RL_SCORE_LESS), {0, 0, 0.5f, 0.5f, 0.5f, 1.5f});

  forward.score = same.get();
  forward.operand_count = 2;
  EXPECT_EQ(rl_attention_forward(context.get(), &forward), RL_ERROR_INVALID_ARGUMENT);
  EXPECT_HAS(rl_last_error(), "operand_count is 2, the score function has 3");
  forward.operand_count = 3;
  operands[1] = &padded;
  EXPECT_EQ(rl_attention_forward(context.get(), &forward), RL_ERROR_INVALID_ARGUMENT);
  EXPECT_HAS(rl_last_error(), "operands[1] is bool");
}

// table[i - j + keys - 1] as an operand: forwards along queries, backwards along keys; plain and
// prepared. What shares memory with such a table is found below its first element as well.
TEST(LibraryScores, ReadTablesAlongDiagonals) {
  const FunctionPointer function =
      function_of({{RL_SCORE, {}, 0}, {RL_SCORE_OPERAND, {0}, 0}, {RL_SCORE_ADD, {0, 1}, 0}});
  constexpr int64_t kLength = 7, kLast = kLength - 1;
  Floats q({1, 1, kLength, 4}), k({1, 1, kLength, 4}), v({1, 1, kLength, 4}),
      out({1, 1, kLength, 4}), want({1, 1, kLength, 4}), matrix({1, 1, kLength, kLength}),
      table({1, 1, 1, 2 * kLength});
  for (Floats* each : {&q, &k, &v, &table})
    for (size_t i = 0; i < each->values.size(); ++i)
      each->values[i] = std::sin(0.7f * static_cast<float>(i) + 1);
  for (int64_t i = 0; i < kLength; ++i)
    for (int64_t j = 0; j < kLength; ++j)
      matrix.values[matrix.at(0, 0, i, j)] = table.values[static_cast<size_t>(i - j + kLast)];
  const int64_t strides[] = {0, 0, 1, -1};
  rl_tensor diagonals = matrix.tensor;
  diagonals.data = table.values.data() + kLast;
  diagonals.strides = strides;
  const rl_tensor *as_matrix[] = {&matrix.tensor}, *as_table[] = {&diagonals};

  const ContextPointer context = cpu_context(1);
  rl_attention_forward_params forward = {};
  forward.size = sizeof forward;
  forward.q = &q.tensor;
  forward.k = &k.tensor;
  forward.v = &v.tensor;
  forward.out = &want.tensor;
  forward.score = function.get();
  forward.operands = as_matrix;
  forward.operand_count = 1;
  ASSERT_EQ(rl_attention_forward(context.get(), &forward), RL_OK) << rl_last_error();
  forward.out = &out.tensor;
  forward.operands = as_table;
  ASSERT_EQ(rl_attention_forward(context.get(), &forward), RL_OK) << rl_last_error();
  EXPECT_EQ(out.values, want.values);

  std::fill(out.values.begin(), out.values.end(), 0.0f);
  rl_attention_call* call = nullptr;
  ASSERT_EQ(rl_attention_forward_prepare(context.get(), &forward, &call), RL_OK);
  const rl_attention_run run = {
      sizeof run, call,
      nullptr,    nullptr,
      0,          {q.tensor.data, k.tensor.data, v.tensor.data, out.tensor.data, diagonals.data}};
  EXPECT_EQ(rl_attention_call_run(&run), RL_OK) << rl_last_error();
  EXPECT_EQ(out.values, want.values);
  rl_attention_call_destroy(call);

  std::vector<float> both(2 * table.values.size() + out.values.size());
  diagonals.data = both.data() + kLast + 2;  // its lowest element is the third
  rl_tensor beside = out.tensor;
  beside.data = both.data() + 2 * kLength + 1;
  forward.out = &beside;
  EXPECT_EQ(rl_attention_forward(context.get(), &forward), RL_OK) << rl_last_error();
  diagonals.data = both.data() + out.values.size() + 2;  // reaches back into the output
  beside.data = both.data();
  EXPECT_EQ(rl_attention_forward(context.get(), &forward), RL_ERROR_INVALID_ARGUMENT);
  EXPECT_HAS(rl_last_error(), "out shares memory with operands[0]");
}

// One problem whose operand is read along diagonals, in either direction, and its gradient in both
// forms: like the operand, and in sums along diagonals.
struct AlongDiagonals {
  int64_t heads, queries, keys, own_heads, direction;
  Floats q, k, v, out, lse, d_out, d_q, d_k, d_v, table, of_scores, along;
  std::vector<int64_t> shape, strides;
  rl_tensor operand;
  Calls calls;
  const rl_tensor* operands[1];
  const rl_tensor* gradients[1];

  AlongDiagonals(int64_t head_count, int64_t key_heads, int64_t query_count, int64_t key_count,
                 int64_t table_heads, int64_t sign)
      : heads(head_count),
        queries(query_count),
        keys(key_count),
        own_heads(table_heads),
        direction(sign),
        q({1, heads, queries, 8}),
        k({1, key_heads, keys, 8}),
        v({1, key_heads, keys, 8}),
        out({1, heads, queries, 8}),
        lse({1, heads, queries}),
        d_out({1, heads, queries, 8}),
        d_q({1, heads, queries, 8}),
        d_k({1, key_heads, keys, 8}),
        d_v({1, key_heads, keys, 8}),
        table({1, own_heads, 1, queries + keys - 1}),
        of_scores({1, own_heads, queries, keys}),
        along({1, own_heads, 1, queries + keys - 1}),
        shape{1, own_heads, queries, keys},
        strides{0, queries + keys - 1, direction, -direction},
        operand(table.tensor),
        calls(q, k, v, out, lse),
        operands{&operand},
        gradients{&of_scores.tensor} {
    std::mt19937 random(5);
    std::normal_distribution<float> normal;
    for (Floats* each : {&q, &k, &v, &d_out, &table})
      for (float& value : each->values) value = normal(random);
    operand.data = table.values.data() + (direction > 0 ? keys - 1 : queries - 1);
    operand.shape = shape.data();
    operand.strides = strides.data();
    calls.differentiate(d_out, d_q, d_k, d_v);
    calls.forward.operands = calls.backward.operands = operands;
    calls.forward.operand_count = calls.backward.operand_count = 1;
    calls.backward.d_operands = gradients;
  }
};

TEST(LibraryScores, HaveGradientsInSumsAlongDiagonals) {
  const FunctionPointer bias =
      function_of({{RL_SCORE, {}, 0}, {RL_SCORE_OPERAND, {0}, 0}, {RL_SCORE_ADD, {0, 1}, 0}});
  const FunctionPointer factor =
      function_of({{RL_SCORE, {}, 0}, {RL_SCORE_OPERAND, {0}, 0}, {RL_SCORE_MULTIPLY, {0, 1}, 0}});
  const ContextPointer context = cpu_context(2);
  std::mt19937 random(1);
  const auto below = [&](int64_t bound) {
    return std::uniform_int_distribution<int64_t>(0, bound - 1)(random);
  };
  static constexpr int64_t kLengths[] = {1, 2, 7, 63, 65, 130};
  for (int round = 0; round < 60; ++round) {
    const int64_t key_heads = 1 + below(2), heads = key_heads * (1 + below(2));
    AlongDiagonals problem(heads, key_heads, kLengths[below(6)], kLengths[below(6)],
                           below(2) == 0 ? 1 : heads, below(2) == 0 ? 1 : -1);
    auto& [forward, backward] = problem.calls;
    forward.score = backward.score = below(2) == 0 ? bias.get() : factor.get();
    forward.causal = backward.causal = static_cast<int32_t>(below(3));
    if (forward.causal != RL_CAUSAL_NONE)
      forward.window = backward.window = below(2) == 0 ? 0 : 1 + below(problem.keys);
    ASSERT_EQ(rl_attention_forward(context.get(), &forward), RL_OK) << rl_last_error();
    ASSERT_EQ(rl_attention_backward(context.get(), &backward), RL_OK) << rl_last_error();
    std::vector<double> want(problem.along.values.size());
    for (int64_t h = 0; h < problem.own_heads; ++h)
      for (int64_t i = 0; i < problem.queries; ++i)
        for (int64_t j = 0; j < problem.keys; ++j)
          want[problem.along.at(0, h, 0, j - i + problem.queries - 1)] +=
              problem.of_scores.values[problem.of_scores.at(0, h, i, j)];
    std::fill(problem.along.values.begin(), problem.along.values.end(), -99.0f);
    problem.gradients[0] = &problem.along.tensor;
    ASSERT_EQ(rl_attention_backward(context.get(), &backward), RL_OK) << rl_last_error();
    for (size_t i = 0; i < want.size(); ++i)
      ASSERT_NEAR(problem.along.values[i], want[i], 2e-5) << round << ", number " << i;

    std::vector<uint16_t> narrow(want.size());
    rl_tensor in_16_bits = problem.along.tensor, narrow_operand = problem.operand;
    std::vector<uint16_t> table(want.size());
    in_16_bits.dtype = narrow_operand.dtype = {RL_BFLOAT, 16, 1};
    in_16_bits.data = narrow.data();
    narrow_operand.data =
        table.data() + (static_cast<float*>(problem.operand.data) - problem.table.values.data());
    for (size_t i = 0; i < table.size(); ++i) {  // a number that 16 bits hold
      table[i] = static_cast<uint16_t>(i % 2 == 0 ? 0x3f80 : 0xbf00);
      problem.table.values[i] = i % 2 == 0 ? 1 : -0.5f;
    }
    ASSERT_EQ(rl_attention_forward(context.get(), &forward), RL_OK) << rl_last_error();
    ASSERT_EQ(rl_attention_backward(context.get(), &backward), RL_OK) << rl_last_error();
    problem.operands[0] = &narrow_operand;
    problem.gradients[0] = &in_16_bits;
    ASSERT_EQ(rl_attention_backward(context.get(), &backward), RL_OK) << rl_last_error();
    for (size_t i = 0; i < narrow.size(); ++i) {
      const uint32_t bits = uint32_t{narrow[i]} << 16;
      float value = 0;
      std::memcpy(&value, &bits, sizeof value);
      ASSERT_NEAR(value, problem.along.values[i], 0.01 * std::fabs(value) + 1e-5) << i;
    }
  }
}

TEST(LibraryScores, SumsAlongDiagonalsOfOtherShapesAndOperandsAreRefused) {
  const FunctionPointer function =
      function_of({{RL_SCORE, {}, 0}, {RL_SCORE_OPERAND, {0}, 0}, {RL_SCORE_ADD, {0, 1}, 0}});
  const ContextPointer context = cpu_context(1);
  AlongDiagonals problem(2, 2, 5, 7, 2, 1);
  auto& [forward, backward] = problem.calls;
  forward.score = backward.score = function.get();
  ASSERT_EQ(rl_attention_forward(context.get(), &forward), RL_OK) << rl_last_error();
  const auto expect_refused = [&](const rl_tensor& gradient) {
    problem.gradients[0] = &gradient;
    EXPECT_EQ(rl_attention_backward(context.get(), &backward), RL_ERROR_INVALID_ARGUMENT);
    EXPECT_HAS(rl_last_error(), "d_operands[0] has shape");
  };
  expect_refused(Floats({1, 2, 1, 10}).tensor);
  expect_refused(Floats({1, 2, 1, 12}).tensor);
  expect_refused(Floats({1, 2, 11, 1}).tensor);
  expect_refused(Floats({1, 1, 1, 11}).tensor);
  // Of an operand that is read otherwise there are no such sums.
  problem.operand = problem.of_scores.tensor;
  expect_refused(problem.along.tensor);
  const int64_t along_keys[] = {0, 11, 0, 1};
  problem.operand = problem.table.tensor;
  problem.operand.shape = problem.shape.data();
  problem.operand.strides = along_keys;
  expect_refused(problem.along.tensor);
}

TEST(LibraryScores, ComeFromCpp) {
  const rl_score_node nodes[] = {
      {RL_SCORE, {}, 0}, {RL_SCORE_OPERAND, {0}, 0}, {RL_SCORE_MULTIPLY, {0, 1}, 0}};
  const rl::ScoreFunction function(nodes);
  const rl::Sizes shape = {1, 1, 5, 4};
  std::vector<float> q(20), out(20), scaled(20), factor = {3}, lse(5), d_out(20, 1), d_q(20),
                                                 d_k(20), d_v(20), d_factor(1);
  for (size_t i = 0; i < q.size(); ++i) q[i] = std::sin(static_cast<float>(i));
  rl::Context context({.threads = 1});
  const rl::AttentionOptions options = {.score = &function};
  const rl::TensorView operand(factor, {1, 1, 1, 1});
  rl::warm_up(context,
              rl::ForwardTensors{.q = {q, shape},
                                 .k = {q, shape},
                                 .v = {q, shape},
                                 .out = {out, shape},
                                 .operands = {operand}},
              options);
  rl::attention_forward(context,
                        {.q = {q, shape},
                         .k = {q, shape},
                         .v = {q, shape},
                         .out = {out, shape},
                         .log_sum_exp = {lse, {1, 1, 5}},
                         .operands = {operand}},
                        options);
  rl::attention_forward(context,
                        {.q = {q, shape}, .k = {q, shape}, .v = {q, shape}, .out = {scaled, shape}},
                        {.scale = 1.5});
  for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], scaled[i], 1e-6) << i;
  rl::attention_backward(context,
                         {.q = {q, shape},
                          .k = {q, shape},
                          .v = {q, shape},
                          .out = {out, shape},
                          .log_sum_exp = {lse, {1, 1, 5}},
                          .d_out = {d_out, shape},
                          .d_q = {d_q, shape},
                          .d_k = {d_k, shape},
                          .d_v = {d_v, shape},
                          .operands = {operand},
                          .d_operands = {rl::TensorView(d_factor, {1, 1, 1, 1})}},
                         options);
  // The factor stretches all scores: so does a longer q, along itself.
  double along_q = 0;
  for (size_t i = 0; i < q.size(); ++i) along_q += q[i] * d_q[i];
  EXPECT_NEAR(d_factor[0] * factor[0], along_q, 1e-5);
}

TEST(LibraryScores, ThatAreMalformedAreNamed) {
  const auto expect = [](const std::vector<rl_score_node>& nodes, const char* message) {
    auto* function = reinterpret_cast<rl_score_function*>(8);
    EXPECT_EQ(rl_score_function_create(nodes.data(), nodes.size(), &function),
              RL_ERROR_INVALID_ARGUMENT);
    EXPECT_EQ(function, nullptr);
    EXPECT_HAS(rl_last_error(), message);
  };
  expect({{RL_SCORE, {}, 0}, {99, {}, 0}}, "node 1 of the score function has op 99");
  expect({{RL_SCORE, {}, 0}, {RL_SCORE_ADD, {0, 1}, 0}},
         "node 1 of the score function (add) reads node 1");
  expect({{RL_SCORE, {}, 0}, {RL_SCORE_EXP, {-1}, 0}}, "reads node -1");
  expect({{RL_SCORE_OPERAND, {6}, 0}}, "reads operand 6");
  expect({{RL_SCORE_OPERAND, {0}, 0}, {RL_SCORE_INT_OPERAND, {0}, 0}}, "as another type");
  expect({{RL_SCORE_KEY, {}, 0}}, "is the result, and no number");
  expect({{RL_SCORE, {}, 0}, {RL_SCORE_NOT, {0}, 0}}, "needs a condition");
  expect({{RL_SCORE_CONSTANT, {}, std::nan("")}}, "no number");
  expect(std::vector<rl_score_node>(500, {RL_SCORE, {}, 0}), "has 500 nodes");
  rl_score_function* function = nullptr;
  EXPECT_EQ(rl_score_function_create(nullptr, 3, &function), RL_ERROR_INVALID_ARGUMENT);
  const rl_score_node node = {RL_SCORE, {}, 0};
  EXPECT_EQ(rl_score_function_create(&node, 0, &function), RL_ERROR_INVALID_ARGUMENT);
  EXPECT_EQ(rl_score_function_create(&node, 1, nullptr), RL_ERROR_INVALID_ARGUMENT);
  rl_score_function_destroy(nullptr);
}

// Nodes at random: an answer, and those that are taken run and stay inside of their memory.
TEST(LibraryScores, AtRandomAreAnsweredWithAStatus) {
  std::mt19937 random(1);
  const auto below = [&](int bound) {
    return static_cast<int32_t>(random() % static_cast<unsigned>(bound));
  };
  const ContextPointer context = cpu_context(1);
  Floats q({1, 2, 9, 8}), k({1, 2, 9, 8}), v({1, 2, 9, 8}), out({1, 2, 9, 8}), lse({1, 2, 9}),
      d_q({1, 2, 9, 8}), d_k({1, 2, 9, 8}), d_v({1, 2, 9, 8}), operand({1, 2, 9, 9}),
      d_operand({1, 2, 9, 9});
  const std::vector<const rl_tensor*> operands(6, &operand.tensor);
  int taken = 0, refused = 0;
  for (int round = 0; round < 3000; ++round) {
    std::vector<rl_score_node> nodes;
    const int count = 1 + below(12);
    for (int i = 0; i < count; ++i) {
      const int op = i == 0 && below(9) > 0 ? RL_SCORE
                     : below(30) == 0       ? below(80) - 4
                     : below(3) == 0        ? below(9)
                     : below(4) == 0        ? 48 + below(6)
                     : below(8) == 0        ? 64 + below(4)
                     : below(2) == 0        ? 16 + below(10)
                                            : 32 + below(6);
      const int reach = i + (below(30) == 0 ? 3 : 0);
      nodes.push_back({op,
                       {reach > 0 ? below(reach) : below(2), reach > 0 ? below(reach) : 0,
                        reach > 0 ? below(reach) : 0},
                       std::ldexp(1.0, below(20) - 10)});
      if (op >= RL_SCORE_OPERAND && op <= RL_SCORE_BOOL_OPERAND) nodes.back().inputs[0] = below(7);
    }
    rl_score_function* made = nullptr;
    const rl_status status = rl_score_function_create(nodes.data(), nodes.size(), &made);
    const FunctionPointer function(made);
    if (status != RL_OK) {
      ASSERT_EQ(status, RL_ERROR_INVALID_ARGUMENT) << rl_last_error();
      ++refused;
      continue;
    }
    ++taken;
    Calls calls(q, k, v, out, lse);
    calls.differentiate(v, d_q, d_k, d_v);
    calls.take(function.get(), operands);
    auto& [forward, backward] = calls;
    rl_status run = RL_ERROR_INTERNAL;
    for (forward.operand_count = 0; forward.operand_count <= 6; ++forward.operand_count) {
      run = rl_attention_forward(context.get(), &forward);
      ASSERT_NE(run, RL_ERROR_INTERNAL) << rl_last_error();
      if (run == RL_OK) break;
    }
    if (run != RL_OK) continue;
    backward.operand_count = forward.operand_count;
    std::vector<const rl_tensor*> gradients(6, nullptr);
    gradients[0] = &d_operand.tensor;
    backward.d_operands = gradients.data();
    ASSERT_NE(rl_attention_backward(context.get(), &backward), RL_ERROR_INTERNAL)
        << rl_last_error();
  }
  EXPECT_GT(taken, 300);
  EXPECT_GT(refused, 300);
}

}  // namespace
}  // namespace ridgeline::score_test
