#include "measure/processor_speed.h"

#include <emmintrin.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "measure/rank_interval.h"

namespace ridgeline {
namespace {

// A slice of 10 to 20 microseconds; the median of several passes over interrupts.
constexpr int kSlices = 9, kSteps = 5000;
constexpr int kChains = 12;  // that do not wait for each other: more than the units hold
constexpr size_t kLine = 64, kReadBytes = size_t{128} << 10;

constexpr struct {
  double ProcessorSpeed::*rate;
  std::string_view what;
} kRates[] = {{&ProcessorSpeed::together_gflops, "threads together computed"},
              {&ProcessorSpeed::alone_gflops, "one thread alone computed"},
              {&ProcessorSpeed::memory_gb_per_s, "memory was read"}};

// Of a slice's work, per nanosecond.
double median_rate(
    double work, const std::function<void()>& slice, const std::function<void()>& prepare = [] {}) {
  std::vector<double> rates;
  for (int i = 0; i < kSlices; ++i) {
    prepare();
    const int64_t begin = monotonic_ns();
    slice();
    rates.push_back(work / static_cast<double>(std::max<int64_t>(monotonic_ns() - begin, 1)));
  }
  return median_of(rates);
}

// Enough independent chains to fill the arithmetic units, so that two threads of one core halve
// each other's rate; a single chain would leave room for both.
float multiply_and_add(float factor, float term) {
  const __m128 by = _mm_set1_ps(factor), plus = _mm_set1_ps(term);
  __m128 chains[kChains];  // in registers, as every loop over them is unrolled
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) {
    chains[i] = by;
    asm volatile("" : "+x"(chains[i]));  // keeps the compiler from computing them as one
  }
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chains[i] = _mm_add_ps(_mm_mul_ps(chains[i], by), plus);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) chains[0] = _mm_add_ps(chains[0], chains[i]);
  return _mm_cvtss_f32(chains[0]);
}

double arithmetic_gflops() {
  constexpr double kFlops = 2.0 * 4 * kChains * kSteps;  // two operations on four numbers
  return median_rate(kFlops, [] {
    const volatile float factor = 0.999F, term = 0.001F;
    volatile float sink = multiply_and_add(factor, term);
    static_cast<void>(sink);
  });
}

// Lines that were flushed out of all caches come from memory; the row's own stay where they are.
double memory_gb_per_s(const char* from) {
  const auto flush = [from] {
    for (size_t i = 0; i < kReadBytes; i += kLine) _mm_clflush(from + i);
    _mm_mfence();
  };
  const auto read = [from] {
    __m128i sum = _mm_setzero_si128();
    for (size_t i = 0; i < kReadBytes; i += sizeof(__m128i))
      sum = _mm_add_epi32(sum, _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
    volatile int sink = _mm_cvtsi128_si32(sum);
    static_cast<void>(sink);
  };
  return median_rate(double{kReadBytes}, read, flush);
}

struct alignas(kLine) Line {
  std::array<char, kLine> bytes = {};
};

// The rate of the slowest thread, all beginning together.
double slowest(int threads, const OnThreads& on_threads,
               const std::function<double(int thread)>& rate) {
  std::atomic<int> missing = threads;
  std::vector<double> rates(static_cast<size_t>(threads));
  on_threads([&](int thread) {
    for (--missing; missing > 0;) std::this_thread::yield();
    rates[static_cast<size_t>(thread)] = rate(thread);
  });
  return *std::min_element(rates.begin(), rates.end());
}

}  // namespace

ProcessorSpeed processor_speed(int threads, const OnThreads& on_threads) {
  static std::vector<Line> lines;  // kept, so that rows see no memory come and go
  lines.resize(std::max(lines.size(), kReadBytes / kLine * static_cast<size_t>(threads)));
  const auto read = [](int thread) {
    return memory_gb_per_s(lines.front().bytes.data() + kReadBytes * static_cast<size_t>(thread));
  };
  return {.threads = threads,
          .alone_gflops = arithmetic_gflops(),
          .together_gflops = slowest(threads, on_threads, [](int) { return arithmetic_gflops(); }),
          .memory_gb_per_s = slowest(threads, on_threads, read)};
}

ProcessorSpeed processor_speed(int threads) {
  return processor_speed(threads, [threads](const std::function<void(int)>& work) {
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
    work(0);
  });
}

std::string SpeedGap::text() const {
  return fmt::format("{} {:.2g}x slower", what, factor);
}

SpeedGap speed_gap(const ProcessorSpeed& first, const ProcessorSpeed& second) {
  SpeedGap widest{.what = kRates[0].what};
  for (const auto& [rate, what] : kRates) {
    const double ratio = first.*rate / second.*rate;
    const bool is_rate = first.*rate > 0 && second.*rate > 0 && std::isfinite(ratio);
    const double factor = is_rate ? std::max(ratio, 1 / ratio) : INFINITY;
    if (factor > widest.factor)
      widest = {.factor = factor, .second_slower = ratio > 1, .what = what};
  }
  return widest;
}

ProcessorSpeed slower_rates(const ProcessorSpeed& first, const ProcessorSpeed& second) {
  ProcessorSpeed out = first;
  for (const auto& [rate, what] : kRates) out.*rate = std::min(first.*rate, second.*rate);
  return out;
}

ProcessorSpeed median_rates(std::span<const ProcessorSpeed> speeds) {
  ProcessorSpeed out = speeds.front();
  for (const auto& [rate, what] : kRates) {
    std::vector<double> values;
    for (const ProcessorSpeed& speed : speeds) values.push_back(speed.*rate);
    out.*rate = median_of(values);
  }
  return out;
}

}  // namespace ridgeline
