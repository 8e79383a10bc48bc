// Shared by the planners: names of types, widths of accesses, walks as parameters.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/params.h"
#include "kernels/cuts.h"
#include "kernels/walk.h"
#include "plan/op_text.h"

namespace ridgeline {

static_assert(kMaxAxes >= kMaxRank);

// "unsigned" if it can count to `count`, else the 64-bit type, whose division is slow.
const char* index_name(int64_t count);

// The most elements that one access of at most 16 bytes may move; each requirement narrows it.
class PackWidth {
 public:
  explicit PackWidth(DType dtype) { limit_to(16 / info(dtype).size); }
  void limit_to(int64_t elements) {
    while (pack_ > elements) pack_ /= 2;
  }
  void require_multiple(int64_t elements) {
    while (elements % pack_ != 0) pack_ /= 2;
  }
  void require_address(const void* data, DType dtype) {
    while (reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(pack_ * info(dtype).size) !=
           0)
      pack_ /= 2;
  }
  int64_t get() const { return pack_; }

 private:
  int64_t pack_ = 16;
};

// Writes the sizes of a walk; the last axis counts packs.
void write_sizes(const Walk& walk, int64_t pack, unsigned long long (&sizes)[kMaxAxes]);
// Writes the strides of one of its tensors between packs.
void write_steps(const Strides& strides, int64_t pack, long long (&steps)[kMaxAxes]);

int64_t next_power_of_two(int64_t value);

// A launch of the kernel `name` in the text of that name, on a row of blocks.
template <class Params>
CudaLaunch launch_of(const std::string& name, int64_t blocks, int64_t threads,
                     CudaConstants constants, const Params& params) {
  CudaLaunch launch{
      .kernel = {.file = name + ".cu", .entry = name, .constants = std::move(constants)},
      .grid = {static_cast<uint32_t>(blocks), 1, 1},
      .threads = static_cast<uint32_t>(threads)};
  launch.set_params(params);
  return launch;
}

// A plan of one launch, without the copy that an initialiser list makes.
inline std::vector<CudaLaunch> alone(CudaLaunch&& launch) {
  std::vector<CudaLaunch> launches;
  launches.push_back(std::move(launch));
  return launches;
}

}  // namespace ridgeline
