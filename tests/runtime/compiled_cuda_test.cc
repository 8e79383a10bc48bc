// Random graphs on a GPU: compiled against eager against the fp64 interpreter.
#include <gtest/gtest.h>

#include "models/attention.h"
#include "passes/flash.h"
#include "runtime/compiled_support.h"
#include "support/from_environment.h"
#include "support/gpu.h"

namespace ridgeline::compiled_cuda_test {
namespace {

using testing::first_seed;
using testing::graphs_wanted;

TEST(CompiledCuda, RandomGraphsInFp32) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  testing::expect_agreement_of_many(
      first_seed(), graphs_wanted(60), DType::f32, device, [](uint64_t seed) {
        testing::RandomGraph made = testing::RandomGraphMaker(seed).make(14);
        made.graph = flash(made.graph);
        return made;
      });
}

TEST(CompiledCuda, RandomGraphsAfterPasses) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  testing::expect_agreement_after_passes(first_seed() + 5000, graphs_wanted(40), device);
}

TEST(CompiledCuda, RandomGraphsIn16Bits) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  for (DType dtype : {DType::bf16, DType::f16})
    testing::expect_agreement_of_many(
        first_seed() + 1000, graphs_wanted(40), dtype, device,
        [&](uint64_t seed) { return testing::RandomGraphMaker(seed, dtype).make(2); });
}

TEST(CompiledCuda, MaximaKeepNan) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  testing::expect_maxima_keep_nan(device);
}

// The first run starts kernels one by one, the second is recorded, the third starts the recording.
TEST(CompiledCuda, ALaunchGraphComputesTheSame) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  const Graph graph = attention_training_graph({.batch_size = 2, .seq_len = 64, .head_dim = 16});
  const Plan plan = make_plan(graph);
  CompiledExecutor executor(graph, plan, device);
  for (Value value : graph.inputs()) {
    std::vector<double> values;
    for (int i = 0; i < 2 * 64 * 16; ++i) values.push_back(std::sin(i + value.node));
    testing::upload(device, executor.input(graph.node(value).name), values);
  }
  executor.run_all();
  const auto first = testing::elements(device, executor.output("d_q"));
  for (int run = 0; run < 3; ++run) {
    executor.run_all();
    EXPECT_EQ(testing::elements(device, executor.output("d_q")), first);
  }
  for (int run = 0; run < 3; ++run) {
    executor.run_stage(0);
    executor.run_stage(1);
    EXPECT_EQ(testing::elements(device, executor.output("d_q")), first);
  }
}

// Rows of a warp, of a block, too long for registers, and folds of columns in many parts.
TEST(CompiledCuda, RowsAndColumnsOfEveryWidth) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  for (int64_t width : {5, 64, 770, 4096, 10000, 50257})
    for (DType dtype : {DType::f32, DType::bf16}) {
      Graph graph;
      const Tensor x = input(graph, "x", {dtype, {70, width}});
      const Tensor weights = exp(x - max(x, {-1}));
      graph.mark_output("softmax", (weights / sum(weights, {-1})).value());
      graph.mark_output("columns", mean(x * x, {0}).value());
      InterpreterInputs inputs;
      for (int64_t i = 0; i < 70 * width; ++i)
        inputs["x"].push_back(round_to(dtype, std::sin(0.37 * static_cast<double>(i))));
      EXPECT_EQ(testing::fault(graph, inputs, dtype, device), "") << width;
    }
}

// Products inside of the kernels that read them: pairs of columns as in a gated unit, single ones,
// operands that lie either way, sizes that are no multiple of a tile, results that others read,
// too.
TEST(CompiledCuda, ProductsInsideOfKernels) {
  // Without a GPU their plans are looked at.
  const auto device = testing::why_no_gpu().empty() ? std::make_unique<CudaDevice>()
                                                    : std::unique_ptr<CudaDevice>();
  const PlanOptions inside = {
      .product_kernel = [](const Graph&, const std::vector<Layout>&, const EpilogueOffer&,
                           const EmitOptions&) { return EpilogueDecision{.takes = true}; }};
  struct Case {
    int64_t rows, columns, depth;
    bool left_deep, right_deep, gated, keeps;
  };
  for (const DType dtype : {DType::bf16, DType::f16})
    for (const Case& c :
         {Case{256, 320, 192, true, true, true, false}, Case{300, 96, 136, true, true, true, true},
          Case{136, 512, 640, false, true, true, false},
          Case{520, 200, 136, true, false, false, false},
          Case{136, 264, 1000, false, true, false, true},
          Case{1032, 1160, 128, true, true, false, false}}) {
      Graph graph;
      const int64_t width = c.gated ? 2 * c.columns : c.columns;
      const auto matrix = [&](const char* name, int64_t rows, int64_t columns, bool is_transposed) {
        const Tensor stored = input(
            graph, name, {dtype, is_transposed ? Shape{columns, rows} : Shape{rows, columns}});
        return is_transposed ? transpose(stored) : stored;
      };
      const Tensor product = matmul(matrix("a", c.rows, c.depth, !c.left_deep),
                                    matrix("b", c.depth, width, c.right_deep));
      const auto wide = [](const Tensor& x) { return cast(x, DType::f32); };
      // Rows of the other operand lie further apart than the product's, as a gated unit's do.
      const Tensor addend =
          slice(input(graph, "c", {dtype, {c.rows, 2 * c.columns}}), 1, 0, c.columns);
      const Tensor left = c.gated ? slice(product, 1, 0, c.columns) : product;
      Tensor result = wide(addend) + silu(wide(left));
      if (c.gated) result = result * wide(slice(product, 1, c.columns, width));
      graph.mark_output("y", cast(result, dtype).value());
      if (c.keeps) graph.mark_output("product", product.value());
      InterpreterInputs inputs;
      for (const auto& [name, count] : std::map<std::string, int64_t>{
               {"a", c.rows * c.depth}, {"b", c.depth * width}, {"c", c.rows * 2 * c.columns}})
        for (int64_t i = 0; i < count; ++i)
          inputs[name].push_back(
              round_to(dtype, std::sin(0.37 * static_cast<double>(i * i % 9973)) *
                                  (name == "a" ? 1 / std::sqrt(c.depth) : 1)));
      const Plan plan = make_plan(graph, inside);
      EXPECT_TRUE(std::ranges::any_of(plan.kernels, [](const PlannedKernel& kernel) {
        return kernel.group.kernel.product.has_value();
      })) << explain(graph, plan);
      if (device == nullptr || !device->has_product_kernels()) continue;
      EXPECT_EQ(testing::fault(graph, inputs, dtype, *device, inside), "")
          << c.rows << " x " << c.columns << " x " << c.depth << " " << info(dtype).name;
    }
}

}  // namespace
}  // namespace ridgeline::compiled_cuda_test
