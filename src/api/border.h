// The border of the C interface: exceptions become statuses with a message of the thread, and
// parameter structs of any age become those of this build.
#pragma once

#include <ridgeline/ridgeline.h>

#include <cstddef>
#include <cstring>

#include "base/error.h"

namespace ridgeline {

// A mistake of the caller.
inline Error invalid(std::string message, std::string next_step) {
  return {ErrorKind::usage, std::move(message), std::move(next_step)};
}

// What a captured stream cannot wait for; RL_ERROR_NOT_READY.
class NotReady : public Error {
 public:
  explicit NotReady(std::string message);
};

// The status of the exception that is being handled; keeps its message for rl_last_error().
rl_status keep_error() noexcept;

template <class F>
rl_status guarded(F work) noexcept {
  try {
    work();
    return RL_OK;
  } catch (...) {
    return keep_error();
  }
}

// The size that a struct had in the first version of its header: whoever was built with that runs
// on, and what was added later is zero.
template <class Params>
inline constexpr size_t kFirstSize = sizeof(Params);
template <>
inline constexpr size_t kFirstSize<rl_attention_forward_params> =
    offsetof(rl_attention_forward_params, score);
template <>
inline constexpr size_t kFirstSize<rl_attention_backward_params> =
    offsetof(rl_attention_backward_params, score);

struct ParamSizes {
  size_t first, now;
};
// Copies a parameter struct, whose first field is its size, into one of `sizes.now` bytes that is
// all zeros. Throws a usage error for null, for a size below the first, and where a newer struct
// asks for what this library does not know.
void copy_params(const void* given, const char* name, void* params, ParamSizes sizes);

template <class Params>
Params read_params(const Params* given, const char* name) {
  Params params = {};
  copy_params(given, name, &params, {kFirstSize<Params>, sizeof params});
  return params;
}

}  // namespace ridgeline
