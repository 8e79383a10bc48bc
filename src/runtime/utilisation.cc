#include "runtime/utilisation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/environment.h"

namespace ridgeline {
namespace {

// Work queued before each synchronization, long enough that the wait for the host at its end is
// negligible.
constexpr double kQueuedS = 0.05;
constexpr double kMostCalls = 20'000;

class Repeated {
 public:
  Repeated(Device& device, const std::function<void()>& work) : device_(device), work_(work) {
    work_();  // does one-time work
    device_.synchronize();
    const double begin_s = monotonic_s();
    work_();
    device_.synchronize();
    once_s_ = std::max(1e-6, monotonic_s() - begin_s);
    calls_ = std::clamp(std::ceil(kQueuedS / once_s_), 1.0, kMostCalls);
  }

  double lasts_s() const { return calls_ * once_s_; }
  void queue() const {
    for (double call = 0; call < calls_; ++call) work_();
  }

 private:
  Device& device_;
  const std::function<void()>& work_;
  double once_s_ = 0, calls_ = 1;
};

// An attached profiler would miss kernels while this process samples counters.
std::string outside_profiler() {
  for (const char* name : {"CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH"})
    if (!environment(name).empty())
      return fmt::format("another profiler is attached to this process ({} is set)", name);
  return {};
}

}  // namespace

std::string UtilisationMeter::attempt(Device& device, const std::function<void()>& work,
                                      Utilisation& seen) {
  const Repeated repeated(device, work);
  if (std::string why = source_->prepare(source_->least_s() + 2 * repeated.lasts_s()); !why.empty())
    return why;
  repeated.queue();
  for (const double until_s = monotonic_s() + source_->lead_in_s(); monotonic_s() < until_s;) {
    device.synchronize();
    repeated.queue();
  }
  if (std::string why = source_->start(); !why.empty()) return why;
  seen.begin_ns = monotonic_ns();
  const double until_s = monotonic_s() + source_->least_s();
  while (true) {
    device.synchronize();
    repeated.queue();
    const bool is_last = monotonic_s() >= until_s;
    if (is_last) seen.end_ns = monotonic_ns();
    if (std::string why = is_last ? source_->stop(seen) : source_->look(); !why.empty()) return why;
    if (is_last) break;
  }
  device.synchronize();
  return {};
}

Utilisation UtilisationMeter::measure(Device& device, const std::function<void()>& work) {
  for (; rung_ < rungs_.size(); ++rung_) {
    std::string why;
    try {
      if (!source_) source_ = rungs_[rung_].open(why);
      Utilisation seen;
      if (source_) why = attempt(device, work, seen);
      if (source_ && why.empty()) {
        seen.source = rungs_[rung_].name;
        seen.passed_over = passed_over_;
        return seen;
      }
    } catch (...) {  // thrown by the work: interrupted, out of memory
      source_.reset();
      throw;
    }
    device.synchronize();
    source_.reset();
    passed_over_.push_back(fmt::format("{}: {}", rungs_[rung_].name, why));
  }
  Utilisation none;
  none.passed_over = passed_over_;
  return none;
}

UtilisationMeter gpu_utilisation(int ordinal, const std::string& why_not_cupti) {
  return UtilisationMeter(
      {{"CUPTI PM sampling",
        [=](std::string& why_not) {
          why_not = why_not_cupti.empty() ? outside_profiler() : why_not_cupti;
          return why_not.empty() ? open_pm_sampling(cuda_library("cupti"), ordinal, why_not)
                                 : nullptr;
        }},
       {"NVML GPM", [=](std::string& why_not) { return open_nvml_gpm(ordinal, why_not); }},
       {"NVML utilization.gpu",
        [=](std::string& why_not) { return open_nvml_utilisation(ordinal, why_not); }}});
}

}  // namespace ridgeline
