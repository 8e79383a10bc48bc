#include "measure/processor_speed.h"

#include <emmintrin.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/processors.h"
#include "measure/rank_interval.h"

namespace ridgeline {
namespace {

// A burst is 5 to 30 microseconds of work, and the best of several counts: an interrupt affects one
// or two of them, a shared core all. Bursts end early after kLongestNs.
constexpr int kBursts = 7;
constexpr int64_t kLongestNs = 3'000'000;
constexpr auto kSpinning = std::chrono::milliseconds(30);
constexpr int kSteps = 10'000;
constexpr int kChains = 12;  // independent; more than the units can have in flight
constexpr size_t kLine = 64, kReadBytes = size_t{64} << 10;

constexpr struct {
  double ProcessorSpeed::*rate;
  std::string_view what;
  double from;  // smaller factors between two measurements are fluctuations
} kRates[] = {{&ProcessorSpeed::together_gflops, "threads together computed", 1},
              {&ProcessorSpeed::alone_gflops, "one thread alone computed", 1},
              {&ProcessorSpeed::memory_gb_per_s, "memory was read", 1.5}};

struct Burst {
  std::atomic<int> missing = 0;       // threads that have not arrived
  std::atomic<int64_t> begin_ns = 0;  // when the last thread arrived
  std::atomic<int64_t> end_ns = 0;    // when the last thread finished
  std::atomic<bool> is_last = false;
};

void raise_to(std::atomic<int64_t>& most, int64_t value) {
  for (int64_t now = most; now < value && !most.compare_exchange_weak(now, value);) {
  }
}

// In a burst every thread calls `prepare`, waits at a barrier, and calls `slice`.
struct Task {
  double work = 0;  // FLOPs or bytes of one slice
  std::function<void(int thread)> slice;
  std::function<void(int thread)> prepare = [](int) {};
};

// Returns work per thread and nanosecond until the last thread finishes, so that the slowest thread
// decides, and two threads that share one processor show.
double rate_at_once(int threads, const OnThreads& on_threads, const Task& task) {
  std::array<Burst, kBursts> bursts;
  for (Burst& burst : bursts) burst.missing = threads;
  const int64_t start_ns = monotonic_ns();
  on_threads([&](int thread) {
    for (Burst& burst : bursts) {
      task.prepare(thread);
      const int64_t now_ns = monotonic_ns();
      raise_to(burst.begin_ns, now_ns);
      if (now_ns - start_ns > kLongestNs) burst.is_last = true;
      --burst.missing;
      for (int spin = 0; burst.missing > 0; ++spin)
        spin < 200 ? _mm_pause() : std::this_thread::yield();
      task.slice(thread);
      raise_to(burst.end_ns, monotonic_ns());
      if (burst.is_last) return;
    }
  });
  double best = 0;
  for (const Burst& burst : bursts)
    if (burst.end_ns > 0)
      best = std::max(best, task.work / static_cast<double>(
                                            std::max<int64_t>(burst.end_ns - burst.begin_ns, 1)));
  return best;
}

// Enough independent chains to saturate the arithmetic units, so that two threads on one core halve
// each other's rate; with a single chain both would run at full rate.
float multiply_and_add(float factor, float term) {
  const __m128 by = _mm_set1_ps(factor), plus = _mm_set1_ps(term);
  __m128 chains[kChains];  // in registers, as every loop over them is unrolled
#pragma GCC unroll 12
  for (int i = 0; i < kChains; ++i) {
    chains[i] = by;
    asm volatile("" : "+x"(chains[i]));  // keeps the compiler from merging the chains
  }
  for (int step = 0; step < kSteps; ++step) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) chains[i] = _mm_add_ps(_mm_mul_ps(chains[i], by), plus);
  }
#pragma GCC unroll 12
  for (int i = 1; i < kChains; ++i) chains[0] = _mm_add_ps(chains[0], chains[i]);
  return _mm_cvtss_f32(chains[0]);
}

Task arithmetic() {
  return {.work = 2.0 * 4 * kChains * kSteps,  // two operations on four numbers
          .slice = [](int) {
            const volatile float factor = 0.999F, term = 0.001F;
            volatile float sink = multiply_and_add(factor, term);
            static_cast<void>(sink);
          }};
}

struct alignas(kLine) Line {
  std::array<char, kLine> bytes = {};
};

// Reads lines after flushing just these from all caches, so that the row's own data stays cached.
Task reading(const std::vector<Line>& lines) {
  const auto part = [&lines](int thread) {
    return lines.front().bytes.data() + kReadBytes * static_cast<size_t>(thread);
  };
  return {.work = double{kReadBytes},
          .slice =
              [part](int thread) {
                const char* from = part(thread);
                __m128i sum = _mm_setzero_si128();
                for (size_t i = 0; i < kReadBytes; i += sizeof(__m128i))
                  sum = _mm_add_epi32(sum,
                                      _mm_load_si128(reinterpret_cast<const __m128i*>(from + i)));
                volatile int sink = _mm_cvtsi128_si32(sum);
                static_cast<void>(sink);
              },
          .prepare =
              [part](int thread) {
                const char* from = part(thread);
                for (size_t i = 0; i < kReadBytes; i += kLine) _mm_clflush(from + i);
                _mm_mfence();
              }};
}

ProcessorSpeed measure_once(int threads, const OnThreads& on_threads) {
  static std::vector<Line> lines;  // kept allocated, so that the memory of rows does not change
  lines.resize(std::max(lines.size(), kReadBytes / kLine * static_cast<size_t>(threads)));
  const OnThreads here = [](const auto& work) { work(0); };
  return {.threads = threads,
          .alone_gflops = rate_at_once(1, here, arithmetic()),
          .together_gflops = rate_at_once(threads, on_threads, arithmetic()),
          .memory_gb_per_s = rate_at_once(threads, on_threads, reading(lines))};
}

}  // namespace

ProcessorSpeed processor_speed(int threads, const OnThreads& on_threads) {
  const ProcessorSpeed first = measure_once(threads, on_threads);
  if (first.together_gflops * kSpeedApart >= first.alone_gflops) return first;
  // Threads of other libraries, here or in a peer's process, spin for some milliseconds after their
  // last work; a slowdown that lasts longer is the state of the machine.
  std::this_thread::sleep_for(kSpinning);
  const ProcessorSpeed second = measure_once(threads, on_threads);
  return second.together_gflops > first.together_gflops ? second : first;
}

ProcessorSpeed processor_speed(int threads) {
  const std::vector<int> processors = allowed_processors();
  return processor_speed(threads, [&](const std::function<void(int)>& work) {
    // The scheduler may start two threads on one processor and keep them there for so short a time.
    const auto in_place = [&](int thread) {
      const OnProcessors here(some_processors(processors, 1, thread));
      work(thread);
    };
    std::vector<std::jthread> others;
    for (int thread = 1; thread < threads; ++thread) others.emplace_back(in_place, thread);
    in_place(0);
  });
}

std::string SpeedGap::text() const {
  return fmt::format("{} {:.2g}x slower", what, factor);
}

SpeedGap speed_gap(const ProcessorSpeed& first, const ProcessorSpeed& second) {
  SpeedGap widest{.what = kRates[0].what};
  for (const auto& [rate, what, from] : kRates) {
    const double ratio = first.*rate / second.*rate;
    const bool is_rate = first.*rate > 0 && second.*rate > 0 && std::isfinite(ratio);
    const double factor = is_rate ? std::max(ratio, 1 / ratio) : INFINITY;
    if (factor > std::max(widest.factor, from))
      widest = {.factor = factor, .second_slower = ratio > 1, .what = what};
  }
  return widest;
}

ProcessorSpeed slower_rates(const ProcessorSpeed& first, const ProcessorSpeed& second) {
  ProcessorSpeed out = first;
  for (const auto& [rate, what, from] : kRates) out.*rate = std::min(first.*rate, second.*rate);
  return out;
}

ProcessorSpeed median_rates(std::span<const ProcessorSpeed> speeds) {
  ProcessorSpeed out = speeds.front();
  for (const auto& [rate, what, from] : kRates) {
    std::vector<double> values;
    for (const ProcessorSpeed& speed : speeds) values.push_back(speed.*rate);
    out.*rate = median_of(values);
  }
  return out;
}

}  // namespace ridgeline
