#include "compile/ladder.h"

#include "base/closest.h"

namespace ridgeline {
namespace {

constexpr ModeInfo kModes[] = {
    {.mode = Mode::vanilla,
     .name = "vanilla",
     .summary = "one kernel per operation, attention with S x S tensors, as PyTorch eager"},
    {.mode = Mode::fused,
     .name = "fused",
     .summary = "generated kernels over one arena; attention still has S x S tensors",
     .fuse = true},
    {.mode = Mode::flash,
     .name = "flash",
     .summary = "fused, and attention is one kernel without S x S tensors",
     .fuse = true,
     .flash = true},
    {.mode = Mode::compiled,
     .name = "compiled",
     .summary = "flash, and all of it in one launch graph where the device has them",
     .fuse = true,
     .flash = true,
     .launch_graph = true},
};

}  // namespace

std::span<const ModeInfo> modes() {
  return kModes;
}

const ModeInfo& info(Mode mode) {
  return kModes[static_cast<size_t>(mode)];
}

Mode parse_mode(std::string_view name) {
  return find_named(kModes, name, "a mode").mode;
}

}  // namespace ridgeline
