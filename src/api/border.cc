#include "api/border.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <exception>
#include <iterator>
#include <new>
#include <string_view>

namespace ridgeline {
namespace {

constexpr size_t kLongestParams = 4096;  // more is no size of a struct

// Of a fixed size, so that an error can be kept when there is no memory for it.
thread_local std::array<char, 1024> last_error = {};

rl_status keep(rl_status status, std::string_view message, std::string_view next_step) noexcept {
  size_t used = 0;
  const auto append = [&](std::string_view text) {
    const size_t length = std::min(text.size(), last_error.size() - 1 - used);
    std::memcpy(last_error.data() + used, text.data(), length);
    used += length;
  };
  append(message);
  if (!next_step.empty()) {
    append(": ");
    append(next_step);
  }
  last_error[used] = '\0';
  return status;
}

rl_status status_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return RL_ERROR_INVALID_ARGUMENT;
    case ErrorKind::unsupported:
      return RL_ERROR_UNSUPPORTED;
    case ErrorKind::out_of_memory:
      return RL_ERROR_OUT_OF_MEMORY;
    case ErrorKind::environment:
      return RL_ERROR_DEVICE;
    case ErrorKind::wrong_result:
    case ErrorKind::internal:
      return RL_ERROR_INTERNAL;
  }
  return RL_ERROR_INTERNAL;
}

}  // namespace

NotReady::NotReady(std::string message)
    : Error(ErrorKind::usage, std::move(message),
            "call the _warm_up function with the same parameters before the capture begins") {}

rl_status keep_error() noexcept {
  try {
    throw;
  } catch (const NotReady& error) {
    return keep(RL_ERROR_NOT_READY, error.message(), error.next_step());
  } catch (const Error& error) {
    return keep(status_of(error.kind()), error.message(), error.next_step());
  } catch (const std::bad_alloc&) {
    return keep(RL_ERROR_OUT_OF_MEMORY, "the host has no more memory", {});
  } catch (const std::exception& error) {
    return keep(RL_ERROR_INTERNAL, error.what(), {});
  } catch (...) {
    return keep(RL_ERROR_INTERNAL, "an unknown exception", {});
  }
}

void copy_params(const void* given, const char* name, void* params, ParamSizes sizes) {
  if (given == nullptr)
    throw Error(ErrorKind::usage, fmt::format("{} is null", name), "pass a parameter struct");
  size_t given_size = 0;
  std::memcpy(&given_size, given, sizeof given_size);
  if (given_size < sizes.first || given_size > kLongestParams)
    throw Error(ErrorKind::usage,
                fmt::format("{}.size is {}, expected {} or what another header of this version has",
                            name, given_size, sizes.now),
                "set it to sizeof of the struct");
  const char* bytes = static_cast<const char*>(given);
  for (size_t i = sizes.now; i < given_size; ++i)
    if (bytes[i] != 0)
      throw Error(ErrorKind::unsupported,
                  fmt::format("{} sets fields that this library, version {}, does not know", name,
                              rl_version()),
                  "use a newer library, or set only what its header has");
  std::memcpy(params, given, std::min(given_size, sizes.now));
}

}  // namespace ridgeline

extern "C" {

uint32_t rl_version(void) {
  return RL_VERSION;
}

const char* rl_last_error(void) {
  return ridgeline::last_error.data();
}

const char* rl_status_name(rl_status status) {
  constexpr const char* kNames[] = {"RL_OK",
                                    "RL_ERROR_INVALID_ARGUMENT",
                                    "RL_ERROR_UNSUPPORTED",
                                    "RL_ERROR_OUT_OF_MEMORY",
                                    "RL_ERROR_DEVICE",
                                    "RL_ERROR_INTERNAL",
                                    "RL_ERROR_NOT_READY"};
  static_assert(std::size(kNames) == RL_ERROR_NOT_READY + 1);
  const auto number = static_cast<size_t>(status);
  return number < std::size(kNames) ? kNames[number] : "RL_ERROR_UNKNOWN";
}

}  // extern "C"
