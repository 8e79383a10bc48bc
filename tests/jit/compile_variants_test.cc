// Compiles kernels for GPUs that need not be here, and looks at what ptxas says of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "jit/cuda_jit.h"
#include "jit/cuda_libraries.h"
#include "kernels/cuda/embedded.h"
#include "support/cuda_samples/samples.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

struct Arch {
  std::string name;
  int compute_capability;
};
void PrintTo(const Arch& arch, std::ostream* out) {
  *out << arch.name;
}
const std::vector<Arch> kArchs = {{"sm_80", 80}, {"sm_89", 89}, {"sm_90a", 90}};

bool needs_hopper(const CudaKernel& kernel) {
  const auto is_cluster = [](const auto& constant) {
    return constant.first == "CLUSTER" && constant.second != "0";
  };
  return kernel.file.find("warpgroups") != std::string::npos || kernel.file == "few_rows.cu" ||
         kernel.file == "flash_seen.cu" || kernel.file == "flash_forward_begin.cu" ||
         kernel.file == "product_update.cu" || std::ranges::any_of(kernel.constants, is_cluster);
}

// The portable kernels, which every arch compiles, in the same order for each; then its own.
std::vector<CudaKernel> samples_of(const Arch& arch) {
  std::vector<CudaKernel> kernels = cuda_kernel_samples(80);
  for (CudaKernel& kernel : cuda_kernel_samples(arch.compute_capability))
    if (needs_hopper(kernel)) kernels.push_back(std::move(kernel));
  return kernels;
}

// What the compiler may park in local memory around a loop, stores and loads together; a loop that
// spills what it works on needs hundreds.
constexpr int kParkedBytes = 64;

// One that parks more, by what was measured: fp32 in two planes, 128 wide, takes all 255 registers.
int parked_bytes(const Arch& arch, const CudaKernel& kernel) {
  const auto has = [&](const char* name, const char* value) {
    return std::ranges::find(kernel.constants, std::pair<std::string, std::string>(name, value)) !=
           kernel.constants.end();
  };
  const bool is_known = arch.name == "sm_90a" && kernel.entry == "flash_backward_queries" &&
                        has("ELEMENT", "fp32") && has("WIDTH", "128");
  return is_known ? 76 : kParkedBytes;
}

void expect_no_spills(const Arch& arch, const std::vector<CudaKernel>& kernels) {
  const CudaJit jit({.arch = arch.name, .cache_dir = "off"});
  const std::vector<MachineCode> codes = jit.machine_codes(kernels);
  for (size_t i = 0; i < codes.size(); ++i) {
    const KernelResources resources = kernel_resources(codes[i].log);
    EXPECT_GT(resources.registers, 0) << kernel_key(kernels[i]) << '\n' << codes[i].log;
    EXPECT_LE(resources.spill_bytes, parked_bytes(arch, kernels[i]))
        << arch.name << ' ' << kernel_key(kernels[i]);
    // What ptxas does when it cannot prove that nobody touches the results of products at work.
    EXPECT_LACKS(codes[i].log, "wgmma.mma_async instructions are serialized")
        << kernel_key(kernels[i]);
  }
}

bool has_constant(const CudaKernel& kernel, std::string_view wanted) {
  return std::ranges::any_of(kernel.constants,
                             [&](const auto& constant) { return constant.first == wanted; });
}
bool has_function(const CudaKernel& kernel) {
  return has_constant(kernel, "SCORE_VALUE");
}
bool has_operand_gradients(const CudaKernel& kernel) {
  return has_constant(kernel, "OPERAND_GRADIENTS");
}

bool adds_up_diagonals(const CudaKernel& kernel) {
  return has_constant(kernel, "DIAGONAL_GRADIENTS");
}

#define SKIP_WITHOUT_NVRTC()   \
  if (nvrtc_version().empty()) \
  GTEST_SKIP() << "NVRTC is not installed: " << cuda_library("nvrtc").how_to_get

// A kernel without a sample would never be compiled before a GPU asks for it.
TEST(CompileVariants, EveryKernelHasASample) {
  std::set<std::string> sampled;
  for (const Arch& arch : kArchs)
    for (const CudaKernel& kernel : samples_of(arch)) sampled.insert(kernel.file);
  for (const EmbeddedText& text : cuda_texts()) {
    if (!text.name.ends_with(".cu")) continue;
    EXPECT_EQ(sampled.count(std::string(text.name)), 1u) << text.name;
  }
}

// One that does not would read what the kernel before it has not written yet.
TEST(CompileVariants, EveryKernelWaitsForTheOneBeforeIt) {
  const auto count = [](std::string_view text, std::string_view what) {
    size_t found = 0;
    for (size_t at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  for (const EmbeddedText& text : cuda_texts()) {
    // Weights come first: of one, who streams and who computes wait; the other waits before or
    // after.
    if (text.name == "resident_kernel.cuh" || text.name == "few_rows.cu") {
      EXPECT_EQ(count(text.text, "wait_for_earlier_kernels();"), 2u);
      continue;
    }
    EXPECT_EQ(count(text.text, "__global__"),
              count(text.text, ") {\n  wait_for_earlier_kernels();"))
        << text.name;
  }
}

// A third of each kernel and width: tiles and masks take turns from width to width.
std::vector<CudaKernel> in_turns(const std::vector<CudaKernel>& kernels) {
  std::map<std::string, std::vector<const CudaKernel*>> groups;
  for (const CudaKernel& kernel : kernels) {
    std::string what = kernel.file + kernel.entry;
    for (const auto& [name, value] : kernel.constants)
      if (name == "WIDTH") what += ' ' + value;
    groups[what].push_back(&kernel);
  }
  std::vector<CudaKernel> taken;
  size_t group = 0;
  for (const auto& [what, members] : groups) {
    const size_t turns = std::min<size_t>(3, members.size());
    for (size_t i = group++ % turns; i < members.size(); i += turns) taken.push_back(*members[i]);
  }
  return taken;
}

// One of each kernel for every width, dtype and mask, the archs taking turns; and of what only one
// arch has, which takes longest, a part (SlowCompileVariants has all).
class CompileSample : public ::testing::TestWithParam<Arch> {};

TEST_P(CompileSample, CompilesWithoutSpills) {
  SKIP_WITHOUT_NVRTC();
  std::set<std::string> seen;
  std::vector<CudaKernel> kernels, own;
  for (const CudaKernel& kernel : samples_of(GetParam())) {
    std::string what = kernel.file + kernel.entry;
    for (const auto& [name, value] : kernel.constants)
      if (name == "ELEMENT" || name == "WIDTH" || name == "MASK") what += ' ' + value;
    if (has_function(kernel)) continue;
    if (needs_hopper(kernel))
      own.push_back(kernel);
    else if (seen.insert(what).second &&
             kArchs[seen.size() % kArchs.size()].name == GetParam().name)
      kernels.push_back(kernel);
  }
  for (CudaKernel& kernel : in_turns(own)) kernels.push_back(std::move(kernel));
  expect_no_spills(GetParam(), kernels);
}

INSTANTIATE_TEST_SUITE_P(Archs, CompileSample, ::testing::ValuesIn(kArchs));

// What decodes tokens: few kernels, so each is compiled for the oldest arch and for the newest.
TEST(CompileVariants, KernelsOfCaches) {
  SKIP_WITHOUT_NVRTC();
  for (const Arch& arch : {kArchs.front(), kArchs.back()}) {
    std::set<std::string> seen;
    std::vector<CudaKernel> kernels;
    for (const CudaKernel& kernel : cuda_kernel_samples(80)) {
      const bool is_attention = kernel.file == "cached_attention.cu";
      const bool is_wanted = is_attention || kernel.file == "cached_attention_parts.cu" ||
                             kernel.file == "append.cu" || kernel.file == "advance.cu" ||
                             kernel.file == "ring_positions.cu" || kernel.file == "argmax.cu" ||
                             kernel.file == "argmax_parts.cu";
      if (is_wanted && (seen.insert(kernel.file).second || is_attention)) kernels.push_back(kernel);
    }
    EXPECT_EQ(seen.size(), 7u);
    expect_no_spills(arch, kernels);
  }
}

bool is_backward_on_hopper(const CudaKernel& kernel) {
  return kernel.file.starts_with("flash_backward") && needs_hopper(kernel);
}

// What a function of scores needs in registers is up to it: attention with one need only compile.
TEST(CompileVariants, AttentionWithAFunctionOfScores) {
  SKIP_WITHOUT_NVRTC();
  for (size_t i = 0; i < kArchs.size(); ++i) {
    std::vector<CudaKernel> kernels;
    size_t turn = 0;
    for (const CudaKernel& kernel : samples_of(kArchs[i]))
      if (has_function(kernel) && !is_backward_on_hopper(kernel) && turn++ % kArchs.size() == i)
        kernels.push_back(kernel);
    EXPECT_GE(turn, 8u);
    const CudaJit jit({.arch = kArchs[i].name, .cache_dir = "off"});
    for (const MachineCode& code : jit.machine_codes(kernels))
      EXPECT_GT(kernel_resources(code.log).registers, 0) << code.log;
  }
}

// Its kernels count every register, and have room for the functions that people ask for.
TEST(CompileVariants, BackwardWithAFunctionOfScoresOnHopper) {
  SKIP_WITHOUT_NVRTC();
  std::vector<CudaKernel> kernels;
  for (const CudaKernel& kernel : samples_of(kArchs.back()))
    if (has_function(kernel) && is_backward_on_hopper(kernel)) kernels.push_back(kernel);
  EXPECT_GE(kernels.size(), 18u);
  // Two functions have operands whose gradients are added up there.
  EXPECT_GE(std::ranges::count_if(kernels, has_operand_gradients), 2);
  // And a relative bias, whose gradient is added up along diagonals, at every width that matters.
  EXPECT_GE(std::ranges::count_if(kernels, adds_up_diagonals), 5);
  expect_no_spills(kArchs.back(), kernels);
}

// The whole list takes minutes: on request, RIDGELINE_COMPILE_ALL=1, in parts that each stay below
// the limit on the time of a test.
constexpr size_t kParts = 4;

class SlowCompileVariants : public ::testing::TestWithParam<std::tuple<Arch, size_t>> {};

TEST_P(SlowCompileVariants, CompileWithoutSpills) {
  SKIP_WITHOUT_NVRTC();
  if (std::getenv("RIDGELINE_COMPILE_ALL") == nullptr)
    GTEST_SKIP() << "RIDGELINE_COMPILE_ALL is not set";
  const auto& [arch, part] = GetParam();
  const std::vector<CudaKernel> all = samples_of(arch);
  std::vector<CudaKernel> kernels;
  for (size_t i = part; i < all.size(); i += kParts)
    if (!has_function(all[i])) kernels.push_back(all[i]);
  expect_no_spills(arch, kernels);
}

INSTANTIATE_TEST_SUITE_P(Slow, SlowCompileVariants,
                         ::testing::Combine(::testing::ValuesIn(kArchs),
                                            ::testing::Range(size_t{0}, kParts)));

}  // namespace
}  // namespace ridgeline
