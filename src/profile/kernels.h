// Describes the kernels of an executable for a profile: node, scope, phase, category, cost.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "compile/executable.h"
#include "profile/category.h"

namespace ridgeline {

struct ProfiledKernel {
  size_t number = 0;           // as KernelRun::number
  uint32_t node = 0;           // representative: the fold, or the node with the most FLOPs
  std::string node_name = {};  // "scores", "matmul_12"
  std::string label = {};      // its op, or the name of a generated kernel
  std::string scope = {};      // of the representative node
  std::vector<std::string> scopes = {};  // of all its nodes, without duplicates, in order
  std::string phase = {};                // "forward", "backward", "optimizer"
  Category category = Category::other;
  DType dtype = DType::f32;  // of its first input, which its arithmetic works on
  Cost cost = {};
  std::optional<double> predicted_us = {};
};

// The predicted minimum time of a kernel in microseconds; empty: not known.
using PredictKernel = std::function<std::optional<double>(const ProfiledKernel&)>;

// In execution order; in eager execution, only nodes that launch kernels.
std::vector<ProfiledKernel> profiled_kernels(const Executable& executable,
                                             const PredictKernel& predict = {});

struct Roofs {
  double flops_per_s = 0;  // 0: not known
  double bytes_per_s = 0;  // 0: not known
};
// The roofline time: the larger of FLOPs and bytes over their roofs; empty: no roof is known.
std::optional<double> least_us(const Cost& cost, const Roofs& roofs);

}  // namespace ridgeline
