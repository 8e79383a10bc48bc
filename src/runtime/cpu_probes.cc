// The products of the GEMM lab and the probes of the roofline on a CPU.
#include <algorithm>
#include <array>
#include <cstring>
#include <numeric>

#include "kernels/cpu/gemm_ladder.h"
#include "kernels/cpu/simd/gemm_kernels.h"
#include "runtime/cpu_device.h"

namespace ridgeline {
namespace {

constexpr int64_t kRepetitions = 4000;           // of arithmetic per sample, which takes some ms
constexpr int64_t kTileRepetitions = 400;        // for as much time on tiles
constexpr int64_t kLine = 64;                    // elements; parts of threads are multiples of it
constexpr int64_t kStreamed = int64_t{8} << 20;  // approximate bytes per thread and sample

using Copy = void (*)(const float* from, float* to, int64_t count);
using Read = float (*)(const float* from, int64_t count);
using Triad = void (*)(const float* a, const float* b, float* to, int64_t count);

void copy_by_library(const float* from, float* to, int64_t count) {
  std::memcpy(to, from, static_cast<size_t>(count) * sizeof(float));
}

// `work` returns the number of its FLOPs.
RateProbe on_every_thread(ThreadPool& pool, const std::function<int64_t()>& work) {
  const auto run = [&pool, work] {
    std::vector<int64_t> flops(static_cast<size_t>(pool.threads()));
    pool.for_each(pool.threads(),
                  [&](int64_t index, int) { flops[static_cast<size_t>(index)] = work(); });
    return std::accumulate(flops.begin(), flops.end(), int64_t{0});
  };
  return {.start = [run] { run(); }, .flops = static_cast<double>(run())};
}

RateProbe stream_by(ThreadPool& pool, Copy copy, Triad triad, const StreamArrays& arrays) {
  const int64_t threads = pool.threads();
  const int64_t part =
      std::max(kLine, element_count(arrays.a.shape) / threads / kLine * kLine);  // of each thread
  const int64_t part_bytes = (arrays.b ? 3 : 2) * part * int64_t{sizeof(float)};
  const int64_t repeats = std::max<int64_t>(1, kStreamed / part_bytes);
  const float* a = arrays.a.as<float>();
  const float* b = arrays.b ? arrays.b->as<float>() : nullptr;
  float* to = arrays.to.as<float>();
  const auto start = [=, &pool] {
    pool.for_each(threads, [&](int64_t index, int) {
      const int64_t begin = index * part;
      for (int64_t repeat = 0; repeat < repeats; ++repeat)
        if (b != nullptr)
          triad(a + begin, b + begin, to + begin, part);
        else
          copy(a + begin, to + begin, part);
    });
  };
  return {.start = start, .bytes = static_cast<double>(part_bytes * threads * repeats)};
}

RateProbe read_by(ThreadPool& pool, Read read, const TensorView& from) {
  const int64_t threads = pool.threads();
  const int64_t part = std::max(kLine, element_count(from.shape) / threads / kLine * kLine);
  const int64_t part_bytes = part * int64_t{sizeof(float)};
  const int64_t repeats = std::max<int64_t>(1, kStreamed / part_bytes);
  const float* data = from.as<float>();
  const auto start = [=, &pool] {
    pool.for_each(threads, [&](int64_t index, int) {
      // Keeps the compiler from removing the reads.
      volatile float sink = 0;
      for (int64_t repeat = 0; repeat < repeats; ++repeat) sink = read(data + index * part, part);
      static_cast<void>(sink);
    });
  };
  return {.start = start, .bytes = static_cast<double>(part_bytes * threads * repeats)};
}

}  // namespace

std::function<void()> CpuDevice::prepare_gemm(GemmRung rung, const GemmOperands& operands) {
  return [this, rung, operands] { run_gemm(rung, operands, {.pool = pool_, .isa = isa_}); };
}

std::vector<ArithmeticProbe> CpuDevice::arithmetic_probes(DType dtype) {
  if (dtype == DType::tf32) return {};
  const ProbeKernels& kernels = probe_kernels(isa_);
  std::vector<ArithmeticProbe> probes;
  probes.push_back({"fma", [this, &kernels] {
                      return on_every_thread(pool_, [&kernels] {
                        std::array<float, 64> sink{};
                        return kernels.multiply_add(kRepetitions, sink.data());
                      });
                    }});
  if (dtype == DType::bf16 && isa_ >= Isa::avx512_bf16)
    probes.push_back({"dots", [this, &kernels] {
                        return on_every_thread(pool_, [&kernels] {
                          std::array<float, 64> sink{};
                          return kernels.dots(kRepetitions, sink.data());
                        });
                      }});
  if (dtype == DType::bf16 && isa_ == Isa::amx)
    probes.push_back({"amx", [this, &kernels] {
                        return on_every_thread(
                            pool_, [&kernels] { return kernels.matrix_units(kTileRepetitions); });
                      }});
  return probes;
}

std::vector<StreamProbe> CpuDevice::stream_probes() {
  const ProbeKernels& kernels = probe_kernels(isa_);
  const auto by = [this](const char* suffix, Copy copy, Triad triad) {
    return StreamProbe{.suffix = suffix,
                       .copies_only = triad == nullptr,
                       .prepare = [this, copy, triad](const StreamArrays& arrays) {
                         return stream_by(pool_, copy, triad, arrays);
                       }};
  };
  const auto reading = [this](Read read) {
    return [this, read](const StreamArrays& arrays) { return read_by(pool_, read, arrays.a); };
  };
  std::vector<StreamProbe> ways = {
      by("", kernels.copy, kernels.triad),
      by("-streaming", kernels.copy_past_caches, kernels.triad_past_caches),
      by("-memcpy", copy_by_library, nullptr)};
  ways[0].read = reading(kernels.read);
  ways[1].read = reading(kernels.read_ahead);
  return ways;
}

}  // namespace ridgeline
