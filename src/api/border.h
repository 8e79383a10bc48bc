// The border of the C interface: exceptions become statuses with a message of the thread, and
// parameter structs of any age become those of this build.
#pragma once

#include <ridgeline/ridgeline.h>

#include <cstddef>
#include <cstring>

namespace ridgeline {

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

// Copies a parameter struct of `given_size` bytes, its first field, into one of `size` that is all
// zeros. Throws a usage error for null, for too small a size, and where a newer struct asks for
// what this library does not know.
void copy_params(const void* given, const char* name, void* params, size_t size);

template <class Params>
Params read_params(const Params* given, const char* name) {
  Params params = {};
  copy_params(given, name, &params, sizeof params);
  return params;
}

}  // namespace ridgeline
