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
      .product_kernel = [](const Graph&, const std::vector<Layout>&, const EpilogueOffer&) {
        return EpilogueDecision{.takes = true};
      }};
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

// Updates that compute gradients themselves, beside one whose gradient is given: sizes that are no
// multiple of a tile, matrices that lie either way, both variants, with and without copies.
TEST(CompiledCuda, UpdatesThatComputeGradients) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  if (!device.has_product_kernels()) GTEST_SKIP() << "no kernels with products on this GPU";
  const PlanOptions inside = {.update_products = [](std::span<const ProductSize>) { return true; },
                              .early_updates = true};
  const int64_t tokens = 328;
  struct Case {
    DType dtype;
    AdamWVariant variant;
    bool is_copied;
  };
  for (const auto& [dtype, variant, is_copied] : {Case{DType::bf16, AdamWVariant::cs336, true},
                                                  Case{DType::bf16, AdamWVariant::pytorch, false},
                                                  Case{DType::f16, AdamWVariant::cs336, true}}) {
    Graph graph;
    InterpreterInputs inputs;
    const auto made = [&](const std::string& name, DType of, const Shape& shape, double scale,
                          double shift = 0) {
      for (int64_t i = 0; i < element_count(shape); ++i)
        inputs[name].push_back(round_to(
            of, shift + scale * std::sin(0.37 * static_cast<double>((i * i + 7 * i) % 9973))));
      return input(graph, name, {of, shape});
    };
    std::vector<AdamWTensors> tensors;
    const auto add = [&](const std::string& name, const Shape& shape, const Tensor& gradient) {
      tensors.push_back({.parameter = made("w" + name, DType::f32, shape, 0.5),
                         .gradient = gradient,
                         .first_moment = made("m" + name, DType::f32, shape, 0.1),
                         .second_moment = made("v" + name, DType::f32, shape, 0.1, 0.2)});
      if (is_copied) tensors.back().copy = made("c" + name, dtype, shape, 0.5);
    };
    const double scale = 1 / std::sqrt(static_cast<double>(tokens));
    for (const auto& [name, shape] : std::map<std::string, Shape>{
             {"a", {768, 384}}, {"b", {200, 328}}, {"c", {1000, 72}}, {"d", {136, 1160}}}) {
      const bool is_turned = name == "d";  // its left matrix lies along the tokens
      const Tensor x = made("x" + name, dtype, {tokens, shape[1]}, 1);
      const Tensor left = is_turned ? made("y" + name, dtype, {shape[0], tokens}, scale)
                                    : transpose(made("y" + name, dtype, {tokens, shape[0]}, scale));
      add(name, shape, matmul(left, x));
    }
    add("e", {96, 40}, made("ge", dtype, {96, 40}, 1));
    inputs["scalars"] = {0.01, 0.1, 0.02};
    const Tensor scalars = input(graph, "scalars", {DType::f32, {kAdamWScalars}});
    const auto updated = adamw_update(tensors, scalars, {}, {.variant = variant});
    for (size_t i = 0; i < updated.size(); ++i) {
      graph.mark_output("w" + std::to_string(i), updated[i].parameter.value());
      graph.mark_output("m" + std::to_string(i), updated[i].first_moment.value());
      graph.mark_output("v" + std::to_string(i), updated[i].second_moment.value());
      if (is_copied) graph.mark_output("c" + std::to_string(i), updated[i].copy.value());
    }
    const Plan plan = make_plan(graph, inside);
    ASSERT_EQ(plan.kernels.size(), 1u) << explain(graph, plan);
    EXPECT_EQ(testing::fault(graph, inputs, dtype, device, inside), "");
  }
}

}  // namespace
}  // namespace ridgeline::compiled_cuda_test
