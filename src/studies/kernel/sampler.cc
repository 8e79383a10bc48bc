#include "studies/kernel/sampler.h"

#include "base/clock.h"
#include "base/error.h"
#include "studies/device_modes.h"

namespace ridgeline {
namespace {

using Call = void (KernelCalls::*)(int64_t copy);
constexpr std::array<Call, 2> kPassCalls = {&KernelCalls::forward, &KernelCalls::backward};

}  // namespace

KernelSampler::KernelSampler(std::unique_ptr<KernelCalls> calls, Device& device,
                             KernelSamplerOptions options)
    : calls_(std::move(calls)), device_(device), options_(options) {
  if (options_.mode == KernelMode::cold) flush_ = device.cache_flush(options_.cache);
}

void KernelSampler::prepare() {
  // Backward reads what forward of the same copy writes.
  for (int64_t copy = 1; options_.backward && copy < options_.copies; ++copy) calls_->forward(copy);
  if (options_.mode != KernelMode::graph) return;
  if (!calls_->can_be_captured())
    throw Error(ErrorKind::unsupported,
                "naive attention allocates as it runs: it cannot be captured in a launch graph",
                "measure it hot or cold");
  for (const Call& pass : std::span(kPassCalls).first(passes()))
    graphs_.push_back(captured(device_, [&] {
      for (int call = 0; call < options_.calls; ++call) (calls_.get()->*pass)(0);
    }));
}

void KernelSampler::sample(std::span<double> times_ms) {
  for (size_t pass = 0; pass < passes(); ++pass) {
    const Times taken = sample_pass(pass);
    times_ms[2 * pass] = taken.device_ms;
    times_ms[2 * pass + 1] = taken.host_ms;
  }
}

KernelSampler::Times KernelSampler::sample_pass(size_t pass) {
  if (flush_) flush_();
  if (lead_in(pass)) start(pass);
  double host_ms = 0;
  const double device_ms = device_.time_ms([&] {
    const double begin = monotonic_s();
    start(pass);
    host_ms = 1e3 * (monotonic_s() - begin);
  });
  last_ms_[pass] = device_ms;
  return {device_ms / options_.calls, host_ms / options_.calls};
}

std::optional<double> KernelSampler::busy_ms(size_t pass) {
  if (flush_) flush_();
  const std::optional<double> ms = device_.busy_ms([&] { start(pass); });
  return ms ? std::optional(*ms / options_.calls) : std::nullopt;
}

std::function<void()> KernelSampler::repeatable(size_t pass) {
  if (flush_ || (pass > 0 && !options_.can_repeat)) return {};
  return [this, pass] { start(pass); };
}

// An empty queue waits for the next launch, and that wait would count as kernel time. Untimed calls
// first keep the GPU busy; in long samples the wait is negligible.
bool KernelSampler::lead_in(size_t pass) const {
  constexpr double kLongSampleMs = 2;
  return device_.has_queue() && !flush_ && last_ms_[pass] < kLongSampleMs && options_.can_repeat;
}

void KernelSampler::start(size_t pass) {
  if (!graphs_.empty()) return graphs_[pass]();
  for (int call = 0; call < options_.calls; ++call) {
    int64_t& copy = next_copy_[pass];
    (calls_.get()->*kPassCalls[pass])(copy);
    if (++copy == options_.copies) copy = 0;
  }
}

}  // namespace ridgeline
