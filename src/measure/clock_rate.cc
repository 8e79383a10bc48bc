#include "measure/clock_rate.h"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace ridgeline {
namespace {

constexpr int kTries = 10;
constexpr int kBlocks = 20'000;
constexpr int kAdditionsPerBlock = 64;

// Both operands are registers: the rename stage of recent cores folds additions of small constants,
// which would show several times the clock rate.
uint64_t dependent_additions(uint64_t sum, uint64_t step) {
  for (int block = 0; block < kBlocks; ++block) {
#pragma GCC unroll 64
    for (int i = 0; i < kAdditionsPerBlock; ++i) {
      sum += step;
      asm volatile("" : "+r"(sum), "+r"(step));  // keeps the compiler from multiplying instead
    }
  }
  return sum;
}

}  // namespace

double measure_clock_mhz() {
  using Clock = std::chrono::steady_clock;
  double best_mhz = 0;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const auto start = Clock::now();
    dependent_additions(1, static_cast<uint64_t>(attempt) + 3);
    const std::chrono::duration<double, std::micro> elapsed_us = Clock::now() - start;
    best_mhz = std::max(best_mhz, double{kBlocks} * kAdditionsPerBlock / elapsed_us.count());
  }
  return best_mhz;
}

}  // namespace ridgeline
