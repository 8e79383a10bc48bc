#include "studies/kernel/workload.h"

#include <fmt/format.h>

#include "base/error.h"
#include "studies/attention/workload.h"
#include "studies/flags.h"
#include "studies/peers/implementations.h"

namespace ridgeline {
namespace {

constexpr KernelModeInfo kModes[] = {
    {KernelMode::hot, "hot", "calls back to back on the same tensors"},
    {KernelMode::cold, "cold",
     "the cache is overwritten before each call, outside the timed window"},
    {KernelMode::cold_rotate, "cold-rotate",
     "calls back to back over copies of the tensors, together twice the cache"},
    {KernelMode::graph, "graph",
     "many calls in one launch graph, replayed: launch latency is out, the cache is warm"},
};

}  // namespace

const Choices<KernelModeInfo> kKernelModes{"a mode of measuring", kModes};

std::vector<KernelMode> modes_of(const Device& device) {
  std::vector<KernelMode> modes = {KernelMode::hot, KernelMode::cold, KernelMode::cold_rotate};
  if (device.can_record()) modes.push_back(KernelMode::graph);
  return modes;
}

AttentionConfig parse_kernel_shape(std::string_view text) {
  const std::vector<int64_t> sizes = parse_sizes(text, 4);
  if (sizes.empty())
    throw Error(ErrorKind::usage, fmt::format("'{}' is not a shape", text),
                "give batch, heads, sequence and head width, each at least 1: --shape 32,8,128,64");
  return {sizes[0], sizes[1], sizes[2], sizes[3]};
}

std::vector<KernelWorkload> expand_matrix(const KernelMatrix& matrix) {
  struct Named {
    std::string name;
    Origin origin;
  };
  std::vector<Named> implementations;
  if (!matrix.own.empty()) implementations.push_back({matrix.own, Origin::own});
  for (const std::string& name : matrix.implementations) {
    if (!kAttentionPeers.find(name) && info(find_attention_implementation(name).mode).fuse)
      throw Error(ErrorKind::usage,
                  fmt::format("'{}' is a plan of several kernels, not a kernel to be called", name),
                  "time it with ridgeline attention");
    implementations.push_back(
        {name, kAttentionPeers.find(name) ? Origin::peer : Origin::ridgeline});
  }
  const auto algorithms_of = [&](const Named& implementation) {
    if (implementation.origin == Origin::ridgeline)
      return backward_rows(implementation.name, matrix.backward);
    return std::vector{matrix.backward.front()};
  };
  std::vector<KernelWorkload> workloads;
  for (const std::string& dtype : matrix.dtypes)
    for (AttentionConfig config : matrix.shapes)
      for (const Named& implementation : implementations)
        for (const BackwardAlgorithm backward : algorithms_of(implementation))
          for (const KernelMode mode : matrix.modes) {
            config.causal = matrix.causal;
            config.dtype = parse_float_dtype(dtype);
            config.backward = backward;
            workloads.push_back({config, implementation.name, mode, implementation.origin});
          }
  return workloads;
}

std::string label(const KernelWorkload& workload) {
  const AttentionConfig& config = workload.config;
  const bool two_pass = config.backward == BackwardAlgorithm::two_pass &&
                        workload.origin == Origin::ridgeline &&
                        chooses_backward(workload.implementation);
  return fmt::format("{} ({},{},{},{}) {}{}{}, {}", workload.implementation, config.batch_size,
                     config.heads, config.seq_len, config.head_dim, info(config.dtype).name,
                     config.causal ? " causal" : "", two_pass ? " two-pass" : "",
                     info(workload.mode).name);
}

std::string problem_of(KernelWorkload workload) {
  workload.mode = KernelMode::hot;
  return label(workload);
}

}  // namespace ridgeline
