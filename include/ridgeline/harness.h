// Measures any callable as Ridgeline measures its own kernels: checked values, warm-ups, samples, a
// confidence interval of the median, a record on disk, interleaved callables, and a verdict against
// an earlier run.
//
//   #include <ridgeline/harness.h>
//
//   ridgeline::Harness harness({.results = "results/saxpy.jsonl"});
//   const ridgeline::Timing timing = harness.measure({.name = "saxpy",
//                                                     .implementation = "plain loop",
//                                                     .sizes = {{"n", n}},
//                                                     .flops = 2.0 * n,
//                                                     .bytes = 12.0 * n,
//                                                     .run = [&] { saxpy(n, 2, x, y); }});
//   printf("%g ms, %g GB/s\n", timing.median_ms, timing.bytes_per_s / 1e9);
//
// CMake: find_package(ridgeline) or add_subdirectory; then link ridgeline::harness.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ridgeline {

struct HarnessOptions {
  std::string study = "own";                            // the name of the set of rows
  std::filesystem::path results = "results/own.jsonl";  // records are appended; empty: none
  int warmups = 10;
  int iterations = 100;
  // Seconds for one row instead of a number of samples; sampling ends early when the median is
  // known to 1 %. 0: no budget.
  double time_budget_s = 0;
  // Which of several runs of the program this is, from 1: verdicts on small differences need
  // several. 0: the only one.
  int run = 0;
};

// Runs the work once and returns its time in milliseconds by another clock, such as a GPU's.
using CallClock = std::function<double(const std::function<void()>& work)>;

// A GPU's clock: events on a stream around the work, which must be queued there. Opens the driver
// when called; throws ridgeline::Error if there is none.
struct CudaClockOptions {
  int device = 0;
  void* stream = nullptr;   // a CUstream or cudaStream_t; null: the default stream
  bool cold_cache = false;  // the GPU's L2 is overwritten before every sample
};
CallClock cuda_clock(const CudaClockOptions& options = {});

// What a check found in one result.
struct CheckedResult {
  std::string name = {};
  double max_error = 0;
  double tolerance = 0;
};

struct Callable {
  std::string name = {};                      // of the workload
  std::string implementation = "default";     // of it; comparisons are between these
  std::map<std::string, int64_t> sizes = {};  // identify the workload
  std::string device = "cpu";
  double flops = 0;  // of one call, by your own convention; 0: unknown
  double bytes = 0;
  std::string convention = {};  // of both, for readers: "an FMA as two, every operand once"
  std::function<void()> run = {};
  CallClock time_ms = {};  // empty: the host's monotonic clock around run()
  // Called after one run, before anything is timed. A result beyond its tolerance, or a NaN, ends
  // the measurement: wrong results are not timed.
  std::function<std::vector<CheckedResult>()> check = {};
  // The host's caches are overwritten before every sample. For a GPU: CudaClockOptions.
  bool cold_cache = false;
};

struct Timing {
  int64_t count = 0;
  double median_ms = 0, median_low_ms = 0, median_high_ms = 0;  // with its interval
  double mean_ms = 0, std_ms = 0, min_ms = 0, max_ms = 0, p95_ms = 0, p99_ms = 0;
  double flops_per_s = 0, bytes_per_s = 0;  // from the median; 0: unknown
  std::vector<double> samples_ms = {};
  std::string wrong = {};  // what the check found; then there are no times. Empty: correct
};

// The time of a callable over that of the first, round by round.
struct TimeRatio {
  double median = 0, low = 0, high = 0;  // with its interval
};

struct Turns {
  std::vector<Timing> timings = {};    // of each callable, in their order
  std::vector<TimeRatio> ratios = {};  // likewise; the first is 1. 0: a side was wrong
};

class Harness {
 public:
  explicit Harness(HarnessOptions options = {});
  // Throws ridgeline::Error (a std::runtime_error) for options that make no sense or a file that
  // cannot be written; exceptions of the callable propagate.
  Timing measure(const Callable& callable);
  // Interleaves samples of several callables, A B B A, so that disturbances of the machine affect
  // all of them: one round is one sample of each. Callables with wrong values are not sampled.
  Turns measure_in_turns(const std::vector<Callable>& callables);

 private:
  HarnessOptions options_;
};

struct BaselineRow {
  std::string workload;  // "saxpy n=1048576"
  std::string implementation;
  std::string verdict;  // "SAME", "FASTER", "SLOWER", "UNCLEAR"; empty: `note` says why not
  double speedup = 0, speedup_low = 0, speedup_high = 0;  // baseline over now
  double improvement_percent = 0;                         // of time saved
  std::string note;
  std::string phase = {};  // of the row: "call" for rows of the harness
};

// Compares two files of records row by row, as `ridgeline compare` does. Throws for files from
// different machines.
std::vector<BaselineRow> compare_with_baseline(const std::filesystem::path& baseline,
                                               const std::filesystem::path& results);

// The same with the noise floors that `ridgeline noise` stored, for example in
// results/history.sqlite. A program that calls this overload also links SQLite.
std::vector<BaselineRow> compare_with_baseline(const std::filesystem::path& baseline,
                                               const std::filesystem::path& results,
                                               const std::filesystem::path& history);

}  // namespace ridgeline
