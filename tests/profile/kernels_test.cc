#include "profile/kernels.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "graph/scope.h"
#include "profile/profile_support.h"

namespace ridgeline {
namespace {

using testing::tiny_transformer;
using testing::training_step;

const std::set<std::string> kPhases = {"forward", "backward", "optimizer"};

class KernelsOfEveryMode : public ::testing::TestWithParam<Mode> {};

TEST_P(KernelsOfEveryMode, HaveAScopeAPhaseAndACategory) {
  CpuDevice device({.threads = 1});
  const Executable executable(training_step(tiny_transformer()), device, {.mode = GetParam()});
  const std::vector<ProfiledKernel> kernels = profiled_kernels(executable);
  EXPECT_EQ(static_cast<int64_t>(kernels.size()), executable.launches());
  std::set<std::string> scopes, flash_scopes, phases;
  for (const ProfiledKernel& kernel : kernels) {
    EXPECT_FALSE(kernel.scope.empty()) << kernel.node_name << " (" << kernel.label << ")";
    EXPECT_TRUE(kPhases.contains(kernel.phase)) << kernel.phase;
    EXPECT_FALSE(kernel.scopes.empty());
    scopes.insert(scope_of_any_layer(kernel.scope));
    if (kernel.category == Category::attention)
      flash_scopes.insert(scope_of_any_layer(kernel.scope));
    phases.insert(kernel.phase);
  }
  EXPECT_EQ(phases, kPhases);
  for (const char* part : {"layers.*.attention.projections", "layers.*.ffn", "layers.*.norm",
                           "embedding", "lm_head", "optimizer"})
    EXPECT_TRUE(scopes.contains(part)) << part;
  const bool is_flash = info(GetParam()).flash;
  EXPECT_EQ(flash_scopes.contains("layers.*.attention"), is_flash);
  EXPECT_EQ(scopes.contains("layers.*.attention.softmax"), !is_flash);
}

INSTANTIATE_TEST_SUITE_P(Ladder, KernelsOfEveryMode,
                         ::testing::Values(Mode::vanilla, Mode::fused, Mode::flash, Mode::compiled),
                         [](const auto& each) {
                           return std::string(ridgeline::info(each.param).name);
                         });

std::map<Category, int> count_by_category(Mode mode) {
  CpuDevice device({.threads = 1});
  const Executable executable(training_step(tiny_transformer()), device, {.mode = mode});
  std::map<Category, int> counts;
  for (const ProfiledKernel& kernel : profiled_kernels(executable)) ++counts[kernel.category];
  return counts;
}

TEST(ProfiledKernels, GradientsBelongToThePartTheyComeFrom) {
  CpuDevice device({.threads = 1});
  const Executable executable(training_step(tiny_transformer()), device, {});
  int scores = 0;
  for (const ProfiledKernel& kernel : profiled_kernels(executable))
    if (kernel.phase == "backward" && kernel.scope == "layers.1.attention.scores" &&
        kernel.category == Category::gemm)
      ++scores;
  EXPECT_EQ(scores, 2);  // of Q K^T: dQ and dK
}

TEST(ProfiledKernels, CategoriesComeFromNodes) {
  // Two layers: forward a softmax each and one of the loss, backward the same.
  std::map<Category, int> vanilla = count_by_category(Mode::vanilla);
  EXPECT_EQ(vanilla[Category::softmax], 6);
  EXPECT_GT(vanilla[Category::norm], 0);
  EXPECT_EQ(vanilla[Category::attention], 0);
  std::map<Category, int> fused = count_by_category(Mode::fused);
  EXPECT_GE(fused[Category::softmax], 4);
  EXPECT_GE(fused[Category::norm], 5);  // of two layers and the end, forward
  std::map<Category, int> flash = count_by_category(Mode::flash);
  EXPECT_EQ(flash[Category::attention], 4);
  EXPECT_EQ(flash[Category::communication], 0);
}

TEST(ProfiledKernels, AFusedKernelKnowsTheScopesOfAllItsNodes) {
  CpuDevice device({.threads = 1});
  const Executable executable(training_step(tiny_transformer()), device, {.mode = Mode::fused});
  bool any = false;
  for (const ProfiledKernel& kernel : profiled_kernels(executable)) {
    EXPECT_NE(std::find(kernel.scopes.begin(), kernel.scopes.end(), kernel.scope),
              kernel.scopes.end());
    any = any || kernel.scopes.size() > 1;
  }
  EXPECT_TRUE(any);
}

TEST(ProfiledKernels, AFusedSoftmaxOrNormIsListedAsOne) {
  CpuDevice device({.threads = 1});
  const Executable executable(training_step(tiny_transformer()), device, {.mode = Mode::fused});
  int forward_softmaxes = 0;
  for (const ProfiledKernel& kernel : profiled_kernels(executable)) {
    if (kernel.category == Category::softmax) {
      EXPECT_EQ(scope_leaf(kernel.scope), kSoftmaxScope) << kernel.label;
      forward_softmaxes += kernel.phase == "forward" && kernel.scope != "loss.softmax";
    }
    if (kernel.category == Category::norm) {
      EXPECT_EQ(scope_leaf(kernel.scope), kNormScope) << kernel.label;
    }
  }
  EXPECT_EQ(forward_softmaxes, 2);
}

TEST(ProfiledKernels, CostsAddUpToTheExecutables) {
  CpuDevice device({.threads = 1});
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    const Executable executable(training_step(tiny_transformer()), device, {.mode = mode});
    Cost expected, sum;
    for (const Cost& cost : executable.kernel_costs()) expected += cost;
    for (const ProfiledKernel& kernel : profiled_kernels(executable)) sum += kernel.cost;
    EXPECT_DOUBLE_EQ(sum.flops, expected.flops);
    EXPECT_DOUBLE_EQ(sum.bytes, expected.bytes);
  }
}

TEST(ProfiledKernels, TheLeastTimeIsTheHigherOfBothRoofs) {
  const Cost cost{.flops = 2e6, .macs = 0, .bytes = 1e6};
  EXPECT_DOUBLE_EQ(*least_us(cost, {.flops_per_s = 1e12, .bytes_per_s = 1e12}), 2);
  EXPECT_DOUBLE_EQ(*least_us(cost, {.flops_per_s = 1e13, .bytes_per_s = 1e12}), 1);
  EXPECT_DOUBLE_EQ(*least_us(cost, {.flops_per_s = 0, .bytes_per_s = 1e12}), 1);
  EXPECT_FALSE(least_us(cost, {}));
}

TEST(CategoryOfName, KnowsTheKernelsOfOthers) {
  for (const auto& [name, category] : std::initializer_list<std::pair<const char*, Category>>{
           {"nvjet_hsh_256x128_64x4_1x2_h_bz_coopA_NNT", Category::gemm},
           {"ampere_sgemm_128x64_tn", Category::gemm},
           {"void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm>", Category::gemm},
           {"sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n", Category::gemm},
           {"void cublasLt::splitKreduce_kernel<32, 16>", Category::gemm},
           {"triton_tem_fused_mm_3", Category::gemm},
           {"void flash_fwd_kernel<Flash_fwd_kernel_traits<64>>", Category::attention},
           {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80", Category::attention},
           {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop", Category::attention},
           {"void (anonymous namespace)::softmax_warp_forward<float>", Category::softmax},
           {"void at::native::cunn_SoftMaxForward<4, float>", Category::softmax},
           {"triton_per_fused__softmax_3", Category::softmax},
           {"void at::native::vectorized_layer_norm_kernel<float>", Category::norm},
           {"triton_red_fused_mean_pow_1", Category::norm},
           {"triton_poi_fused_mul_silu_4", Category::elementwise},
           {"void at::native::vectorized_elementwise_kernel<4, MulFunctor>", Category::elementwise},
           {"void at::native::multi_tensor_apply_kernel<TensorListMetadata>",
            Category::elementwise},
           {"Memcpy DtoD (Device -> Device)", Category::memory},
           {"Memset (Device)", Category::memory},
           {"void at::native::CatArrayBatchedCopy<float>", Category::memory},
           {"ncclDevKernel_AllReduce_Sum_f32_RING_LL", Category::communication},
           {"graph_0_cpp_fused__to_copy_add_mul_1", Category::elementwise},
           {"graph_0_cpp_fused__softmax__to_copy_2", Category::softmax},
           {"aten::mm", Category::gemm},
           {"aten::bmm", Category::gemm},
           {"aten::masked_fill_", Category::elementwise},
           {"aten::_fused_adamw_", Category::elementwise},
           {"aten::copy_", Category::memory},
           {"some_kernel", Category::other},
           {"", Category::other}})
    EXPECT_EQ(category_of_name(name), category) << name;
}

}  // namespace
}  // namespace ridgeline
