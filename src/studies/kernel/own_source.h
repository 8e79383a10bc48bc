// The user's kernel: its source, the launch that its comments request, and its compilation.
//
//   // ridgeline: grid = (seq_len + 63) / 64, heads, batch
//   // ridgeline: block = 128
//   // ridgeline: shared = 2 * 64 * head_dim * element_bytes
//   extern "C" __global__ void my_attention(const Element* q, const Element* k, const Element* v,
//                                           Element* output, int batch, int heads, int seq_len,
//                                           int head_dim, float scale, int causal)
//
// docs/own-kernels.md describes the whole contract.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "models/attention.h"

namespace ridgeline {

// Evaluates integers, names, + - * / and parentheses; division truncates toward zero. Throws a
// usage error for anything else, unknown names, divisors 0 and -1, and numbers beyond 63 bits.
int64_t evaluate(std::string_view expression,
                 const std::map<std::string, int64_t, std::less<>>& names);

struct OwnLaunch {
  std::array<int64_t, 3> grid = {1, 1, 1};
  std::array<int64_t, 3> block = {1, 1, 1};
  int64_t shared_bytes = 0;  // dynamic

  bool operator==(const OwnLaunch&) const = default;
};

// Returns the launch that the comments of `source` request. Throws a usage error that names the
// line of a repeated, malformed or too large value, or the value that is missing.
OwnLaunch own_launch(std::string_view source, const AttentionConfig& config);

struct OwnKernelCode {
  std::string cubin;
  int registers = 0;
  int spill_bytes = 0;
};

// Throws a usage error with NVRTC's log, in the line numbers of the user's file, if the source does
// not compile or has no such entry; an unsupported error without NVRTC.
OwnKernelCode compile_own_kernel(const std::string& source, const std::string& file_name,
                                 const std::string& entry, const AttentionConfig& config,
                                 const std::string& arch);

}  // namespace ridgeline
