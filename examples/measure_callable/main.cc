// Measures two implementations of y = a x + y, and compares the run with an earlier one.
//
//   measure_callable results.jsonl                  measures, and appends the records
//   measure_callable results.jsonl baseline.jsonl   also prints what changed since the baseline
#include <ridgeline/harness.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

using Vector = std::vector<float>;

void forward(float a, const Vector& x, Vector& y) {
  for (size_t i = 0; i < y.size(); ++i) y[i] += a * x[i];
}

// The same sums in another order, which fetches every cache line sixteen times.
void strided(float a, const Vector& x, Vector& y) {
  constexpr size_t kStride = 16;
  for (size_t start = 0; start < kStride; ++start)
    for (size_t i = start; i < y.size(); i += kStride) y[i] += a * x[i];
}

// y stays a multiple of x, whatever the order of the sums; as x[1] is 1, the multiple is y[1].
std::vector<ridgeline::CheckedResult> check_saxpy(const Vector& x, const Vector& y) {
  double worst = 0;
  for (size_t i = 0; i < y.size(); ++i)
    worst = std::max(worst, std::fabs(double{y[i]} - double{y[1]} * x[i]));
  return {{.name = "y", .max_error = worst, .tolerance = 1e-6 * y[1] * x.back()}};
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
  // The two alternate, so that disturbances of the machine affect both; a wrong one gets no time.
  std::vector<ridgeline::Callable> callables;
  for (const Way& way : {Way{"forward", forward}, Way{"strided", strided}})
    callables.push_back({.name = "saxpy",
                         .implementation = way.name,
                         .sizes = {{"n", kCount}},
                         .flops = 2.0 * kCount,
                         .bytes = 3.0 * sizeof(float) * kCount,
                         .convention = "an FMA as two; x and y read, y written",
                         .run = [&x, &y, way] { way.saxpy(0.5f, x, y); },
                         .check = [&] { return check_saxpy(x, y); }});
  const ridgeline::Turns turns = harness.measure_in_turns(callables);
  for (size_t i = 0; i < callables.size(); ++i) {
    const ridgeline::Timing& timing = turns.timings[i];
    if (!timing.wrong.empty()) throw std::runtime_error(timing.wrong);
    std::printf("%-8s %7.3f ms [%.3f, %.3f]  %6.2f GFLOP/s  %6.2f GB/s  %.2f of forward's time\n",
                callables[i].implementation.c_str(), timing.median_ms, timing.median_low_ms,
                timing.median_high_ms, timing.flops_per_s / 1e9, timing.bytes_per_s / 1e9,
                turns.ratios[i].median);
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
