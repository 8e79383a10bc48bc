// Which arithmetic the CUDA kernels make products of, by op and dtype.
#include <gtest/gtest.h>

#include "kernels/cuda/kernels.h"
#include "models/attention.h"

namespace ridgeline::cuda_product_path_test {
namespace {

std::vector<PathMacs> paths_on_cuda(DType dtype, AttentionForm form, size_t stage) {
  const Graph graph = attention_training_graph(
      {.batch_size = 2, .heads = 1, .seq_len = 64, .head_dim = 32, .dtype = dtype}, form);
  return product_paths(graph, graph.stages().at(stage), cuda_product_path);
}

struct PathCase {
  DType dtype;
  AttentionForm form;
  ProductPath path;
};

TEST(CudaProductPath, FlashOnAGpuCutsFp32IntoThreeProductsOfFp16) {
  for (const auto& [dtype, form, path] :
       {PathCase{DType::f32, AttentionForm::fused, {DType::f16, 3}},
        PathCase{DType::tf32, AttentionForm::fused, {DType::f16, 1}},
        PathCase{DType::bf16, AttentionForm::fused, {DType::bf16, 1}},
        PathCase{DType::f32, AttentionForm::plain, {DType::f32, 1}},
        PathCase{DType::tf32, AttentionForm::plain, {DType::tf32, 1}}})
    for (const size_t stage : {0, 1}) {
      const std::vector<PathMacs> paths = paths_on_cuda(dtype, form, stage);
      ASSERT_EQ(paths.size(), 1u);
      EXPECT_EQ(paths[0].path, path) << info(dtype).name;
      EXPECT_EQ(paths[0].macs, (stage == 0                     ? 2
                                : form == AttentionForm::fused ? 5
                                                               : 4) *
                                   2.0 * 64 * 64 * 32);
    }
}

}  // namespace
}  // namespace ridgeline::cuda_product_path_test
