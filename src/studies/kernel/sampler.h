// Takes one sample of a kernel: back to back, after a flush, over copies, or in a launch graph.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "studies/kernel/calls.h"
#include "studies/kernel/workload.h"

namespace ridgeline {

struct KernelSamplerOptions {
  KernelMode mode = KernelMode::hot;
  bool backward = false;
  int64_t copies = 1;
  int calls = 1;           // per sample
  bool can_repeat = true;  // whether a pass can run without the other
  Bytes cache = {};        // the cache that is flushed before a cold sample
};

class KernelSampler {
 public:
  KernelSampler(std::unique_ptr<KernelCalls> calls, Device& device, KernelSamplerOptions options);

  KernelCalls& calls() { return *calls_; }

  // Call this after the first run, so that every kernel is loaded before a capture.
  void prepare();

  // For forward and, if timed, backward: the device time of one call and the host time until it
  // returns, in milliseconds, in the order of kernel_series().
  void sample(std::span<double> times_ms);

  size_t passes() const { return options_.backward ? 2 : 1; }
  // The busy time of one call of a pass, see Device::busy_ms().
  std::optional<double> busy_ms(size_t pass);
  // Returns the calls of a sample as a function that can be called repeatedly, or an empty one if a
  // cache flush or the other pass has to run in between.
  std::function<void()> repeatable(size_t pass);

 private:
  struct Times {
    double device_ms = 0;
    double host_ms = 0;
  };
  Times sample_pass(size_t pass);
  bool lead_in(size_t pass) const;
  void start(size_t pass);  // starts the calls of one sample

  std::unique_ptr<KernelCalls> calls_;
  Device& device_;
  KernelSamplerOptions options_;
  std::function<void()> flush_;
  std::vector<std::function<void()>> graphs_;  // one per pass
  std::array<int64_t, 2> next_copy_{};
  std::array<double, 2> last_ms_{};
};

}  // namespace ridgeline
