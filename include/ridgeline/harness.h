// Measures any callable the way Ridgeline measures its own: checked values, warm-ups, samples, an
// interval of the median, a record on the disk, several callables in turns, and a verdict against
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
  // Seconds for one row instead of a number of samples; it ends early when the median is known to
  // 1 %. 0: none.
  double time_budget_s = 0;
  // Which of several runs of the program this is, from 1: together they carry verdicts on small
  // differences. 0: the only one.
  int run = 0;
};

// Runs the work once and gives its time in milliseconds by a clock of its own, such as a GPU's.
using CallClock = std::function<double(const std::function<void()>& work)>;

// A GPU's own clock: events on a stream around the work, which has to be queued there. The driver
// is opened when this is called; throws ridgeline::Error where there is none.
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
  std::string implementation = "default";     // of it: what is compared with what
  std::map<std::string, int64_t> sizes = {};  // that identify the workload
  std::string device = "cpu";
  double flops = 0;  // of one call, by your own convention; 0: not known
  double bytes = 0;
  std::string convention = {};  // of both, for people: "an FMA as two, every operand once"
  std::function<void()> run = {};
  CallClock time_ms = {};  // empty: the host's monotonic clock around run()
  // Called after one run, before anything is timed. A result beyond its tolerance, or one that is
  // NaN, ends the measurement: there is no time of a wrong result.
  std::function<std::vector<CheckedResult>()> check = {};
  // The host's caches are overwritten before every sample. For a GPU: CudaClockOptions.
  bool cold_cache = false;
};

struct Timing {
  int64_t count = 0;
  double median_ms = 0, median_low_ms = 0, median_high_ms = 0;  // with its interval
  double mean_ms = 0, std_ms = 0, min_ms = 0, max_ms = 0, p95_ms = 0, p99_ms = 0;
  double flops_per_s = 0, bytes_per_s = 0;  // from the median; 0: not known
  std::vector<double> samples_ms = {};
  std::string wrong = {};  // what the check found; then there are no times. Empty: it is right
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
  // cannot be written; what the callable throws passes through.
  Timing measure(const Callable& callable);
  // Takes samples of several callables in turns, A B B A, so that what disturbs the machine
  // disturbs all of them: one round is one sample of each. Those whose values are wrong take no
  // turns.
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
  std::string phase = {};  // of the row: "call" for what the harness measured
};

// Compares two files of records row by row, as `ridgeline compare` does. Throws for files from
// different machines.
std::vector<BaselineRow> compare_with_baseline(const std::filesystem::path& baseline,
                                               const std::filesystem::path& results);

// The same with the noise floors that `ridgeline noise` stored, results/history.sqlite say. A
// program that calls this one links SQLite, too.
std::vector<BaselineRow> compare_with_baseline(const std::filesystem::path& baseline,
                                               const std::filesystem::path& results,
                                               const std::filesystem::path& history);

}  // namespace ridgeline
