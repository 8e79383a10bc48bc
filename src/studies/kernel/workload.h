// What the kernel study measures: shapes, measurement modes, and every combination of them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "models/attention.h"
#include "runtime/device.h"
#include "studies/choices.h"

namespace ridgeline {

enum class KernelMode { hot, cold, cold_rotate, graph };

struct KernelModeInfo {
  KernelMode mode;
  std::string_view name;  // as users write it
  std::string_view summary;
};
extern const Choices<KernelModeInfo> kKernelModes;
inline const KernelModeInfo& info(KernelMode mode) {
  return kKernelModes[mode];
}

// Returns all modes that the device supports; launch graphs exist on GPUs only.
std::vector<KernelMode> modes_of(const Device& device);

// The sizes in "32,8,128,64". Throws a usage error.
AttentionConfig parse_kernel_shape(std::string_view text);

// Which code runs a row: this program, another library, or the user's kernel.
enum class Origin { ridgeline, peer, own };

struct KernelWorkload {
  AttentionConfig config;
  std::string implementation;
  KernelMode mode = KernelMode::hot;
  Origin origin = Origin::ridgeline;
};

// The study's axes; every combination is a row.
struct KernelMatrix {
  std::vector<std::string> implementations = {"flash"};  // ours and peers'
  std::string own = {};  // the entry of the user's kernel, measured beside them; empty: none
  std::vector<AttentionConfig> shapes = {  // only sizes
      {1, 1, 128, 64},
      {8, 4, 128, 64},
      {32, 8, 128, 64},
      {32, 8, 256, 64}};
  std::vector<std::string> dtypes = {"fp16", "bf16"};
  std::vector<KernelMode> modes = {KernelMode::hot};
  bool causal = false;
  // With gradients: one row per algorithm, for implementations that have a choice.
  std::vector<BackwardAlgorithm> backward = {BackwardAlgorithm::single_pass};
};

// Throws a usage error for a name that is neither ours nor a peer's. The modes of one problem are
// consecutive.
std::vector<KernelWorkload> expand_matrix(const KernelMatrix& matrix);

// "flash (32,8,128,64) bf16 causal, cold"; a two-pass backward is named as well.
std::string label(const KernelWorkload& workload);
// Identifies one shape in one dtype, for all modes.
std::string problem_of(KernelWorkload workload);

}  // namespace ridgeline
