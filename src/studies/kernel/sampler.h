// How one sample of a kernel is taken: back to back, after a flush, over copies, in a launch graph.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "studies/kernel/calls.h"
#include "studies/kernel/workload.h"

namespace ridgeline {

struct KernelRowOptions {
  KernelMode mode = KernelMode::hot;
  bool backward = false;
  int64_t copies = 1;
  int calls = 1;           // in one sample
  bool can_repeat = true;  // a pass without the other
  Bytes cache = {};        // that a cold sample must not find filled
};

class KernelRow {
 public:
  KernelRow(std::unique_ptr<KernelCalls> calls, Device& device, KernelRowOptions options);

  KernelCalls& calls() { return *calls_; }

  // After the first run, so that a capture finds every kernel loaded.
  void prepare();

  // Forward and, with a backward, backward: the time of one call on the device and the host's until
  // it returns, in milliseconds, as kernel_series() names them.
  void sample(std::span<double> times_ms);

  size_t passes() const { return options_.backward ? 2 : 1; }
  // Of one call of a pass, see Device::busy_ms().
  std::optional<double> busy_ms(size_t pass);
  // The calls of a sample, to be started over and over. Empty: something has to come between them,
  // the flush of a cache or the other pass.
  std::function<void()> repeatable(size_t pass);

 private:
  struct Times {
    double device_ms = 0;
    double host_ms = 0;
  };
  Times sample_pass(size_t pass);
  bool lead_in(size_t pass) const;
  void start(size_t pass);  // the calls of one sample

  std::unique_ptr<KernelCalls> calls_;
  Device& device_;
  KernelRowOptions options_;
  std::function<void()> flush_;
  std::vector<std::function<void()>> graphs_;  // one per pass
  std::array<int64_t, 2> next_copy_{};
  std::array<double, 2> last_ms_{};
};

}  // namespace ridgeline
