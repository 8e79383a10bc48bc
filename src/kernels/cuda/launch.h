// The launch of a CUDA kernel as data: its text and constants, its grid, its parameters. Nothing
// here needs a GPU; the runtime compiles and launches it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/units.h"
#include "graph/graph.h"
#include "kernels/tensor_view.h"

namespace ridgeline {

using CudaConstants = std::vector<std::pair<std::string, std::string>>;

// One specialised kernel. Equal ones have the same machine code.
struct CudaKernel {
  std::string file;   // an embedded text: "flash_forward.cu"
  std::string entry;  // its extern "C" __global__ function
  // Prepended to the text as #define NAME VALUE.
  CudaConstants constants = {};
  std::string text = {};  // generated source, used instead of an embedded text

  bool operator==(const CudaKernel&) const = default;
};

// A tensor [batch, heads, rows, width] of 16-bit elements that a kernel copies in boxes
// (tensor_map.cuh): the runtime encodes it as a TensorMap in the parameters.
inline constexpr unsigned kBoxColumns = 64;  // kPanel of warpgroup.cuh: 128 bytes, swizzled
struct BoxedTensor {
  uint32_t map_offset = 0;      // of the TensorMap, in the parameters
  uint32_t address_offset = 0;  // of the tensor's address there, for movable launches
  DType dtype = DType::bf16;
  std::array<uint64_t, 4> sizes = {};          // the width first
  std::array<uint64_t, 3> strides_bytes = {};  // of rows, heads, batches
  uint32_t box_rows = 0;

  bool operator==(const BoxedTensor&) const = default;
};

struct CudaLaunch {
  CudaKernel kernel;
  std::array<uint32_t, 3> grid = {1, 1, 1};
  uint32_t threads = 128;
  uint32_t shared_bytes = 0;  // dynamic shared memory
  // Whether it may start while its predecessor finishes; the kernel itself then waits for results.
  bool starts_early = true;
  std::vector<std::byte> params = {};  // the kernel's one parameter: a struct of params.h
  std::vector<BoxedTensor> boxed = {};

  template <class Params>
  void set_params(const Params& value) {
    static_assert(std::is_trivially_copyable_v<Params>);
    params.resize(sizeof value);
    std::memcpy(params.data(), &value, sizeof value);
  }
};

// The limits that shape a launch.
struct CudaFacts {
  std::string name = {};                   // "NVIDIA H200"
  int compute_capability = 80;             // 90: 9.0
  int multiprocessors = 1;                 // available to a launch
  int reserved_multiprocessors = 0;        // left to collectives
  int64_t shared_bytes_per_block = 49152;  // with opt-in
  int64_t l2_bytes = 0;
  Bytes memory = {};
  double max_clock_hz = 0;

  // "sm_90a": the exact target for the compiler.
  std::string arch() const;
};

// Picks one of `count` ways to do the same work: the first without tuning, else the fastest, which
// is cached under `key`.
using CudaChooser =
    std::function<size_t(const std::string& key, size_t count,
                         const std::function<std::vector<CudaLaunch>(size_t)>& candidate)>;

// A node to be run: views hold device addresses, except constants (TensorView::host_scalar).
struct CudaCall {
  const Node& node;
  std::span<const TensorView> inputs;
  std::span<const TensorView> outputs;  // contiguous
  const CudaFacts& device;
  void* scratch = nullptr;  // of as many bytes as the op's scratch function returns
  const CudaChooser& choose;
};

}  // namespace ridgeline
