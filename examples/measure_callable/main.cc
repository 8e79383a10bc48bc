// Measures y = a x + y, written twice, and compares the run with an earlier one.
//
//   measure_callable results.jsonl                  measures, and appends the records
//   measure_callable results.jsonl baseline.jsonl   and says what changed since the baseline
#include <ridgeline/harness.h>

#include <cstdio>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

namespace {

using Vector = std::vector<float>;

void forward(float a, const Vector& x, Vector& y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += a * x[i];
}

// The same sums in another order: every cache line is fetched sixteen times.
void strided(float a, const Vector& x, Vector& y) {
  constexpr size_t kStride = 16;
  for (size_t start = 0; start < kStride; ++start)
    for (size_t i = start; i < y.size(); i += kStride) y[i] += a * x[i];
}

int run(const std::string& results, const std::string& baseline) {
  constexpr int64_t kCount = 1 << 21;
  Vector x(kCount), y(kCount);
  std::iota(x.begin(), x.end(), 0.0f);
  ridgeline::Harness harness(
      {.study = "saxpy", .results = results, .warmups = 3, .iterations = 30});
  struct Way {
    const char* name;
    void (*saxpy)(float, const Vector&, Vector&);
  };
  for (const Way& way : {Way{"forward", forward}, Way{"strided", strided}}) {
    const ridgeline::Timing timing = harness.measure({.name = "saxpy",
                                                      .implementation = way.name,
                                                      .sizes = {{"n", kCount}},
                                                      .flops = 2.0 * kCount,
                                                      .bytes = 3.0 * sizeof(float) * kCount,
                                                      .run = [&] { way.saxpy(0.5f, x, y); }});
    std::printf("%-8s %7.3f ms [%.3f, %.3f]  %6.2f GFLOP/s  %6.2f GB/s\n", way.name,
                timing.median_ms, timing.median_low_ms, timing.median_high_ms,
                timing.flops_per_s / 1e9, timing.bytes_per_s / 1e9);
  }
  if (baseline.empty()) return 0;
  for (const ridgeline::BaselineRow& row : ridgeline::compare_with_baseline(baseline, results))
    std::printf("%s, %s: %s, %.2fx [%.2f, %.2f] %s\n", row.workload.c_str(),
                row.implementation.c_str(), row.verdict.c_str(), row.speedup, row.speedup_low,
                row.speedup_high, row.note.c_str());
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc > 1 ? argv[1] : "results/saxpy.jsonl", argc > 2 ? argv[2] : "");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
