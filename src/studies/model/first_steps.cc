#include "studies/model/first_steps.h"

#include <sys/resource.h>

namespace ridgeline {
namespace {

constexpr size_t kFirstSteps = 3;

struct Costs {
  double setup_s = 0, system_s = 0;
  Acquired acquired = {};
  int64_t page_faults = 0;

  explicit Costs(const Device& device)
      : setup_s(device.setup_seconds()), acquired(device.ledger().acquired()) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    system_s = static_cast<double>(usage.ru_stime.tv_sec) +
               1e-6 * static_cast<double>(usage.ru_stime.tv_usec);
    page_faults = usage.ru_minflt;
  }
};

}  // namespace

void FirstSteps::take(const std::function<double()>& step) {
  if (steps_.size() >= kFirstSteps) {
    step();
    return;
  }
  const Costs before(device_);
  const double ms = step();
  const Costs after(device_);
  steps_.push_back({{"ms", ms},
                    {"setup_ms", 1e3 * (after.setup_s - before.setup_s)},
                    {"allocation_ms", 1e3 * (after.acquired.seconds - before.acquired.seconds)},
                    {"allocated_bytes", (after.acquired.bytes - before.acquired.bytes).count},
                    {"page_faults", after.page_faults - before.page_faults},
                    {"system_ms", 1e3 * (after.system_s - before.system_s)}});
}

}  // namespace ridgeline
