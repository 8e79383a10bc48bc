#include "models/attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/error.h"
#include "kernels/reference/attention_oracle.h"
#include "support/run_eager.h"

namespace ridgeline {
namespace {

void run_here(int64_t count, const std::function<void(int64_t, int64_t)>& body) {
  body(0, count);
}

InterpreterInputs random_inputs(const Graph& graph, uint64_t seed) {
  std::mt19937_64 random(seed);
  InterpreterInputs inputs;
  for (Value value : graph.inputs()) {
    const TensorType& type = graph.type(value);
    std::vector<double>& values = inputs[graph.node(value).name];
    values.resize(static_cast<size_t>(element_count(type.shape)));
    for (double& x : values) x = round_to(type.dtype, std::normal_distribution<double>()(random));
  }
  return inputs;
}

// Two independent routes to the same numbers: the differentiated graph in the interpreter, and the
// closed form in the attention oracle.
TEST(AttentionOracle, AgreesWithTheInterpretedGraph) {
  for (bool causal : {false, true}) {
    const AttentionConfig config{.batch_size = 1, .seq_len = 13, .head_dim = 5, .causal = causal};
    const Graph graph = attention_training_graph(config);
    const InterpreterInputs inputs = random_inputs(graph, 3);
    const auto values = interpret(graph, inputs);
    AttentionHead head{13,
                       5,
                       causal,
                       1 / std::sqrt(5.0),
                       inputs.at("q"),
                       inputs.at("k"),
                       inputs.at("v"),
                       inputs.at("d_output")};
    std::vector<int64_t> rows(13);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int64_t>(i);
    const AttentionRowsResult oracle = attention_rows_fp64(head, rows, rows, run_here);
    for (const auto& [name, expected] : {std::pair{"output", &oracle.output},
                                         {"d_q", &oracle.d_q},
                                         {"d_k", &oracle.d_k},
                                         {"d_v", &oracle.d_v}}) {
      for (const Output& output : graph.outputs()) {
        if (output.name != name) continue;
        const auto& got = values[graph.index(output.value)];
        ASSERT_EQ(got.size(), expected->size());
        for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], (*expected)[i], 1e-12) << name;
      }
    }
  }
}

TEST(Attention, EagerAgreesWithTheOracleInEveryDtype) {
  CpuDevice device({.threads = 2});
  for (DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (bool causal : {false, true})
      for (const auto& [seq_len, head_dim] : {std::pair{1, 1}, {7, 16}, {33, 24}, {65, 8}}) {
        const Graph graph = attention_training_graph({.batch_size = 2,
                                                      .heads = 2,
                                                      .seq_len = seq_len,
                                                      .head_dim = head_dim,
                                                      .causal = causal,
                                                      .dtype = dtype});
        const InterpreterInputs inputs = random_inputs(graph, 5);
        const auto expected = interpret(graph, inputs);
        const auto got = testing::run_eager(graph, inputs, device);
        for (const Output& output : graph.outputs()) {
          const auto& reference = expected[graph.index(output.value)];
          double largest = 0;
          for (double value : reference) largest = std::max(largest, std::abs(value));
          const double allowed = 8 * info(dtype).epsilon * (largest + 1);
          for (size_t i = 0; i < reference.size(); ++i)
            ASSERT_NEAR(got.at(output.name)[i], reference[i], allowed)
                << output.name << " S=" << seq_len << " d=" << head_dim << " " << info(dtype).name;
        }
      }
}

TEST(Attention, SizesThatMakeNoSenseAreUsageErrors) {
  EXPECT_THROW(attention_training_graph({.batch_size = 0}), Error);
  EXPECT_THROW(attention_training_graph({.seq_len = -5}), Error);
  EXPECT_THROW(attention_training_graph({.batch_size = INT64_MAX, .heads = 4}), Error);
  EXPECT_THROW(attention_training_graph({.seq_len = int64_t{1} << 50}), Error);
}

}  // namespace
}  // namespace ridgeline
