// The ladder from vanilla to compiled: what each rung adds, under one set of names everywhere.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace ridgeline {

enum class Mode : uint8_t { vanilla, fused, flash, compiled };

struct ModeInfo {
  Mode mode;
  std::string_view name;  // as users write it
  std::string_view summary;
  bool fuse = false;          // generated kernels over one arena; else one kernel per node
  bool flash = false;         // softmax(f(Q K^T)) V becomes one attention node
  bool launch_graph = false;  // repeated work is captured once and replayed, where supported
};

std::span<const ModeInfo> modes();  // lowest rung first
const ModeInfo& info(Mode mode);
Mode parse_mode(std::string_view name);  // throws a usage error that lists them

}  // namespace ridgeline
