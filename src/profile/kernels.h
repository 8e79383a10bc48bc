// The kernels of an executable as a profile names them: node, scope, phase, category, cost.
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
  uint32_t node = 0;           // the one that decides: its fold, or the node of the most FLOPs
  std::string node_name = {};  // "scores", "matmul_12"
  std::string label = {};      // its op, or the name of a generated kernel
  std::string scope = {};      // of the node that decides
  std::vector<std::string> scopes = {};  // of all its nodes, each once, in their order
  std::string phase = {};                // "forward", "backward", "optimizer"
  Category category = Category::other;
  DType dtype = DType::f32;  // of what it reads first: what its arithmetic works on
  Cost cost = {};
  std::optional<double> predicted_us = {};
};

// The least time of a kernel on the machine at hand, in microseconds; empty: not known.
using PredictKernel = std::function<std::optional<double>(const ProfiledKernel&)>;

// In the order in which they run; of eager execution only nodes that start kernels.
std::vector<ProfiledKernel> profiled_kernels(const Executable& executable,
                                             const PredictKernel& predict = {});

// The higher of arithmetic and traffic over their roofs; a roof of 0 is not known.
struct Roofs {
  double flops_per_s = 0;
  double bytes_per_s = 0;
};
std::optional<double> least_us(const Cost& cost, const Roofs& roofs);

}  // namespace ridgeline
