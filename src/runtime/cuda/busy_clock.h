// How long a GPU is busy with work, without its waits for the host.
//
// Events around a launch do not measure that: on an empty stream the first one is reached at once,
// so the interval includes the host's launch time. So work is split into windows. Before each
// window a kernel holds the stream, and the host queues launches behind it for as long as the hold
// is sure to last; then the GPU runs them without waiting, and two events around all of them
// measure their time, including the short gaps of the GPU between kernels.
#pragma once

#include <functional>
#include <optional>

#include "runtime/cuda/queue.h"

namespace ridgeline {

class BusyClock : private QueueWatch {
 public:
  // `hold(ms)` launches a kernel on the queue's stream that lasts at least that long.
  BusyClock(CudaQueue& queue, std::function<void(double ms)> hold);
  ~BusyClock() override;
  BusyClock(const BusyClock&) = delete;
  BusyClock& operator=(const BusyClock&) = delete;

  // Runs `work` once. Empty: in some window the host was late, so the GPU may have waited; later
  // holds last longer.
  std::optional<double> time_ms(const std::function<void()>& work);

 private:
  void before_start() override;
  void before_wait() override;
  void open();
  void close();
  double host_ms() const;  // since the window was opened

  CudaQueue& queue_;
  std::function<void(double ms)> hold_;
  cuda::Event begin_ = nullptr, end_ = nullptr;  // created on first use
  double hold_ms_;
  double opened_s_ = 0;
  double busy_ms_ = 0;
  bool is_open_ = false;
  bool is_opening_ = false;
  bool was_late_ = false;
};

}  // namespace ridgeline
