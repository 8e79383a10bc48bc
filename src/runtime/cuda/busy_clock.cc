#include "runtime/cuda/busy_clock.h"

#include <algorithm>

#include "base/clock.h"

namespace ridgeline {
namespace {

constexpr double kFirstHoldMs = 0.5;  // enough for dozens of launches
constexpr double kLongestHoldMs = 16;
// A window accepts launches for this fraction of its hold; the rest is slack for a slow launch.
constexpr double kShareForLaunches = 0.5;

}  // namespace

BusyClock::BusyClock(CudaQueue& queue, std::function<void(double ms)> hold)
    : queue_(queue), hold_(std::move(hold)), hold_ms_(kFirstHoldMs) {}

BusyClock::~BusyClock() {
  for (cuda::Event event : {begin_, end_})
    if (event != nullptr) queue_.driver().cuEventDestroy_v2(event);
}

std::optional<double> BusyClock::time_ms(const std::function<void()>& work) {
  queue_.require_no_capture("timing");
  if (begin_ == nullptr) {
    begin_ = queue_.create_event();
    end_ = queue_.create_event();
    hold_(0);  // loads the kernel
  }
  queue_.synchronize();
  busy_ms_ = 0;
  is_open_ = is_opening_ = was_late_ = false;
  struct Watched {
    CudaQueue& queue;
    Watched(CudaQueue& watched, QueueWatch* watch) : queue(watched) { queue.set_watch(watch); }
    ~Watched() { queue.set_watch(nullptr); }
  } watched(queue_, this);
  work();
  if (is_open_) close();
  if (!was_late_) return busy_ms_;
  hold_ms_ = std::min(2 * hold_ms_, kLongestHoldMs);
  return std::nullopt;
}

void BusyClock::before_start() {
  if (is_opening_) return;  // the hold itself
  if (is_open_ && host_ms() > kShareForLaunches * hold_ms_) close();
  if (!is_open_) open();
}

void BusyClock::before_wait() {
  if (is_open_) close();
}

double BusyClock::host_ms() const {
  return 1e3 * (monotonic_s() - opened_s_);
}

void BusyClock::open() {
  is_opening_ = true;
  opened_s_ = monotonic_s();
  hold_(hold_ms_);
  is_opening_ = false;
  queue_.check(queue_.driver().cuEventRecord(begin_, queue_.stream()), "recording an event");
  is_open_ = true;
}

// The hold began after the window was opened, so launches queued within its duration were queued
// before the GPU reached the first event.
void BusyClock::close() {
  is_open_ = false;
  queue_.check(queue_.driver().cuEventRecord(end_, queue_.stream()), "recording an event");
  was_late_ = was_late_ || host_ms() > hold_ms_;
  queue_.check(queue_.driver().cuEventSynchronize(end_), "waiting for the GPU");
  busy_ms_ += queue_.elapsed_ms(begin_, end_);
}

}  // namespace ridgeline
