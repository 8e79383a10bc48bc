// How busy a GPU is while work runs, from its hardware counters.
//
//   UtilisationMeter meter = gpu_utilisation(device.facts().ordinal);
//   const Utilisation seen = meter.measure(device, [&] { executable.run(); });
//   if (seen.tensor_active) ... *seen.tensor_active == 0.83, by seen.source
//
// Work is repeated for as long as the source needs, outside of any timing. Uses the best source
// that works here: CUPTI's counter sampling, NVML's counters on Hopper and later (GPM), NVML's
// share of time with any kernel. The result says why better ones failed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "jit/cuda_libraries.h"
#include "runtime/device.h"

namespace ridgeline {

// Values that the source does not provide are empty. Shares are from 0 to 1.
struct UtilisationSample {
  int64_t begin_ns = 0, end_ns = 0;      // on the clock of monotonic_ns()
  std::optional<double> sm_active = {};  // cycles with a resident warp, mean over multiprocessors
  std::optional<double> tensor_active = {};     // cycles with an active tensor pipe, likewise
  std::optional<double> dram_bytes_per_s = {};  // read and written
  std::optional<double> any_kernel = {};        // time in which at least one kernel ran
  std::optional<double> sm_clock_hz = {};
};

struct Utilisation : UtilisationSample {        // over the whole measurement
  std::string source = {};                      // "CUPTI PM sampling"; empty: there is none
  std::vector<std::string> passed_over = {};    // better sources, each with the reason
  std::vector<UtilisationSample> samples = {};  // over time, where the source provides several
};

// One source of counters.
class UtilisationSource {
 public:
  virtual ~UtilisationSource() = default;
  virtual double least_s() const = 0;             // the minimum time that work has to run
  virtual double lead_in_s() const { return 0; }  // how long work runs before start()
  // These return what failed, in a sentence; empty: success. The device is idle in prepare(), and
  // busy in start(), look() and stop().
  virtual std::string prepare(double /*expected_s*/) { return {}; }
  virtual std::string start() = 0;
  virtual std::string look() { return {}; }
  virtual std::string stop(Utilisation& seen) = 0;
};

// Opens a source. Null: `why_not` gives the reason in a sentence.
struct UtilisationRung {
  std::string name;
  std::function<std::unique_ptr<UtilisationSource>(std::string& why_not)> open;
};

class UtilisationMeter {
 public:
  UtilisationMeter() = default;  // without sources; runs no work
  explicit UtilisationMeter(std::vector<UtilisationRung> rungs) : rungs_(std::move(rungs)) {}

  explicit operator bool() const { return !rungs_.empty(); }
  // A source that failed once is not tried again.
  Utilisation measure(Device& device, const std::function<void()>& work);

 private:
  std::string attempt(Device& device, const std::function<void()>& work, Utilisation& seen);

  std::vector<UtilisationRung> rungs_;
  size_t rung_ = 0;
  std::unique_ptr<UtilisationSource> source_;
  std::vector<std::string> passed_over_;
};

// The sources of a GPU, best first. `why_not_cupti`: if not empty, why CUPTI must not be used.
UtilisationMeter gpu_utilisation(int ordinal, const std::string& why_not_cupti = {});

std::unique_ptr<UtilisationSource> open_pm_sampling(const CudaLibrary& cupti, int ordinal,
                                                    std::string& why_not);
std::unique_ptr<UtilisationSource> open_nvml_gpm(int ordinal, std::string& why_not);
std::unique_ptr<UtilisationSource> open_nvml_utilisation(int ordinal, std::string& why_not);

// Empty if the sampled counters exist on the chip ("GH100") and fit one pass; else what is wrong.
// Needs no GPU.
std::string check_sampled_counters(const CudaLibrary& cupti, const std::string& chip);

}  // namespace ridgeline
