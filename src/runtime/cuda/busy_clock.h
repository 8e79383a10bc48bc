// How long a GPU is busy with work, without its waits for the host.
//
// Events around a launch do not tell: on an empty stream the first one is reached at once, and the
// host's own launch time lies between the two. So work is cut into windows. Before each the stream
// is held up, and the host queues launches behind the hold for as long as that surely lasts; then
// the GPU runs them with nothing to wait for, and two events around all of them give their time,
// with the short gaps that a GPU itself makes between kernels.
#pragma once

#include <functional>
#include <optional>

#include "runtime/cuda/queue.h"

namespace ridgeline {

class BusyClock : private QueueWatch {
 public:
  // `hold(ms)` starts a kernel on the queue's stream that lasts at least so long.
  BusyClock(CudaQueue& queue, std::function<void(double ms)> hold);
  ~BusyClock() override;
  BusyClock(const BusyClock&) = delete;
  BusyClock& operator=(const BusyClock&) = delete;

  // Runs `work` once. Empty: in some window the host was late, so that the GPU may have waited; the
  // next holds last longer.
  std::optional<double> time_ms(const std::function<void()>& work);

 private:
  void before_start() override;
  void before_wait() override;
  void open();
  void close();
  double host_ms() const;  // since the window was opened

  CudaQueue& queue_;
  std::function<void(double ms)> hold_;
  cuda::Event begin_ = nullptr, end_ = nullptr;  // made when they are used first
  double hold_ms_;
  double opened_s_ = 0;
  double busy_ms_ = 0;
  bool is_open_ = false;
  bool is_opening_ = false;
  bool was_late_ = false;
};

}  // namespace ridgeline
