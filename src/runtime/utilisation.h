// How busy a GPU is while work runs, as its own counters tell.
//
//   UtilisationMeter meter = gpu_utilisation(device.facts().ordinal);
//   const Utilisation seen = meter.measure(device, [&] { executable.run(); });
//   if (seen.tensor_active) ... *seen.tensor_active == 0.83, by seen.source
//
// Work is started over and over for as long as the source needs, apart from any timing. The best
// source that works here serves: CUPTI's sampling of counters, NVML's counters of Hopper and later
// (GPM), NVML's share of time with any kernel. Why a better one could not is part of the answer.
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

// What the source does not tell is empty. Shares are from 0 to 1.
struct UtilisationSample {
  int64_t begin_ns = 0, end_ns = 0;      // as monotonic_ns() counts
  std::optional<double> sm_active = {};  // cycles with a warp on the multiprocessor, mean of all
  std::optional<double> tensor_active = {};     // cycles in which the tensor pipe worked, likewise
  std::optional<double> dram_bytes_per_s = {};  // read and written
  std::optional<double> any_kernel = {};        // time in which at least one kernel ran
  std::optional<double> sm_clock_hz = {};
};

struct Utilisation : UtilisationSample {        // of all the time that was looked at
  std::string source = {};                      // "CUPTI PM sampling"; empty: there is none
  std::vector<std::string> passed_over = {};    // better sources, each with the reason
  std::vector<UtilisationSample> samples = {};  // over time, where the source tells several
};

// One way to count.
class UtilisationSource {
 public:
  virtual ~UtilisationSource() = default;
  virtual double least_s() const = 0;             // for how long work has to run
  virtual double lead_in_s() const { return 0; }  // and for how long before start()
  // These give what failed, in a sentence; empty: nothing did. The device is idle in prepare(), and
  // works in start(), look() and stop().
  virtual std::string prepare(double /*expected_s*/) { return {}; }
  virtual std::string start() = 0;
  virtual std::string look() { return {}; }
  virtual std::string stop(Utilisation& seen) = 0;
};

// Opens a source. Null: `why_not` says in a sentence why there is none.
struct UtilisationRung {
  std::string name;
  std::function<std::unique_ptr<UtilisationSource>(std::string& why_not)> open;
};

class UtilisationMeter {
 public:
  UtilisationMeter() = default;  // knows no source, and runs no work
  explicit UtilisationMeter(std::vector<UtilisationRung> rungs) : rungs_(std::move(rungs)) {}

  explicit operator bool() const { return !rungs_.empty(); }
  // A source that failed once is not asked again.
  Utilisation measure(Device& device, const std::function<void()>& work);

 private:
  std::string attempt(Device& device, const std::function<void()>& work, Utilisation& seen);

  std::vector<UtilisationRung> rungs_;
  size_t rung_ = 0;
  std::unique_ptr<UtilisationSource> source_;
  std::vector<std::string> passed_over_;
};

// The sources of a GPU, best first. `why_not_cupti`: CUPTI must not be asked, for this reason.
UtilisationMeter gpu_utilisation(int ordinal, const std::string& why_not_cupti = {});

std::unique_ptr<UtilisationSource> open_pm_sampling(const CudaLibrary& cupti, int ordinal,
                                                    std::string& why_not);
std::unique_ptr<UtilisationSource> open_nvml_gpm(int ordinal, std::string& why_not);
std::unique_ptr<UtilisationSource> open_nvml_utilisation(int ordinal, std::string& why_not);

// Empty: the counters that are sampled are known for the chip ("GH100") and fit one pass; else what
// is wrong. Needs no GPU.
std::string check_sampled_counters(const CudaLibrary& cupti, const std::string& chip);

}  // namespace ridgeline
