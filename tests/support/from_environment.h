// How much random tests are asked for: a sample every day, thousands on request.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace ridgeline::testing {

inline uint64_t number_from(const char* variable, uint64_t usual) {
  const char* given = std::getenv(variable);
  return given != nullptr ? std::strtoull(given, nullptr, 10) : usual;
}

inline uint64_t graphs_wanted(uint64_t usual) {
  return number_from("RIDGELINE_RANDOM_GRAPHS", usual);
}

// Several processes may share the work.
inline uint64_t first_seed() {
  return number_from("RIDGELINE_FIRST_SEED", 0);
}

}  // namespace ridgeline::testing
