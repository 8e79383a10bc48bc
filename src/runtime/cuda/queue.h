// The stream on which a device's work runs in order, a side stream during capture, and the errors
// that surface on them.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "graph/graph.h"
#include "kernels/cuda/launch.h"
#include "runtime/cuda/driver_api.h"
#include "runtime/setup_clock.h"

namespace ridgeline {

// The primary context of a GPU, shared by the whole process, including PyTorch.
class PrimaryContext {
 public:
  // Throws a usage error when there is no GPU with that ordinal.
  explicit PrimaryContext(int ordinal);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  cuda::DeviceHandle device() const { return device_; }
  cuda::Context handle() const { return context_; }
  void make_current() const;
  // For destructors, which must not throw even if the context is lost.
  bool try_make_current() const noexcept;

 private:
  cuda::DeviceHandle device_ = 0;
  cuda::Context context_ = nullptr;
};

// Makes a context current in this thread, and restores the previous one at the end.
class CurrentContext {
 public:
  // Without a context: only restores the current one at the end.
  CurrentContext();
  explicit CurrentContext(const PrimaryContext& context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  cuda::Context before_ = nullptr;
  bool changed_ = false;
};

// Is called before a queue acts, except during captures.
class QueueWatch {
 public:
  virtual ~QueueWatch() = default;
  virtual void before_start() = 0;  // of a kernel, a launch graph, a copy
  virtual void before_wait() = 0;   // of the host for the GPU
};

class CudaQueue {
 public:
  // On a new stream, or on the caller's, which outlives the queue.
  explicit CudaQueue(const PrimaryContext& context, std::optional<cuda::Stream> given = {});
  ~CudaQueue();
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  const cuda::Driver& driver() const { return driver_; }
  cuda::Stream stream() const { return on_side_ ? side_stream_ : main_stream(); }
  cuda::Stream main_stream() const { return redirected_ ? *redirected_ : stream_; }
  // Later work goes to the caller's stream; none: back to the queue's own.
  void redirect(std::optional<cuda::Stream> stream) { redirected_ = stream; }
  const PrimaryContext& context() const { return context_; }
  void make_current() const { context_.make_current(); }
  bool try_make_current() const noexcept { return context_.try_make_current(); }

  // Records the node about to run: asynchronous errors name the last one.
  void note(const Node& node);
  void launch(cuda::Function function, const CudaLaunch& launch);
  void synchronize();
  // Code that launches work on stream() or waits for it without this class calls these first. A
  // watch is set while busy time is measured; null removes it.
  void before_start() {
    if (watch_ != nullptr && !capturing_) [[unlikely]]
      watch_->before_start();
  }
  void before_wait() {
    if (watch_ != nullptr && !capturing_) [[unlikely]]
      watch_->before_wait();
  }
  void set_watch(QueueWatch* watch) { watch_ = watch; }
  // Runs `work` between two events and waits for the second. `work` may time parts of itself, as
  // the choice of an algorithm does.
  double time_ms(const std::function<void()>& work) { return time_each_ms({&work, 1})[0]; }
  // The same for consecutive works, with one event between two of them.
  std::vector<double> time_each_ms(std::span<const std::function<void()>> works);

  // Shared by all users of this queue; see Device::setup_seconds().
  SetupClock& setup() { return setup_; }
  const SetupClock& setup() const { return setup_; }

  // See Device::mark().
  void mark();
  std::vector<double> take_marks_ms();

  // Throws for anything but success. After an error that breaks the context every call throws, and
  // names that error.
  void check(cuda::Result result, const char* what) {
    if (result != cuda::kSuccess) fail(result, what);
  }
  bool lost() const { return !lost_since_.empty(); }

  cuda::Event create_event(unsigned flags = 0);  // the caller destroys it
  double elapsed_ms(cuda::Event from, cuda::Event to);

  // Between begin and end, work is recorded and not run. Returns null if `keep` is false.
  void begin_capture();
  cuda::LaunchGraphExec end_capture(bool keep);
  bool capturing() const { return capturing_; }
  // Whether the caller is capturing the stream that it passed.
  bool caller_captures() const;
  // During capture: a second stream of work, see Device::begin_side().
  void begin_side();
  size_t end_side();
  void join_side(size_t mark);
  bool on_side() const { return on_side_; }
  // Work launched from now on, on both streams, waits for an event of another stream.
  void wait_for(cuda::Event event);
  // Throws during a capture, ours or the caller's, in which `what` is not possible.
  void require_no_capture(const char* what) const;

 private:
  [[noreturn]] void fail(cuda::Result result, const char* what);
  // Writes the tensor maps of a launch into its parameters.
  void encode_maps(const CudaLaunch& launch, std::span<std::byte> params);
  std::string last_node() const;
  cuda::Event next_event();

  const PrimaryContext& context_;
  const cuda::Driver& driver_;
  cuda::Stream stream_ = nullptr;
  bool owns_stream_ = true;
  std::optional<cuda::Stream> redirected_;
  cuda::Stream side_stream_ = nullptr;  // created on first use
  int least_priority_ = 0;
  bool starts_early_ = false;  // the GPU can start a kernel while its predecessor finishes
  bool on_side_ = false;
  std::vector<cuda::Event> capture_events_;  // reused by the next capture
  size_t capture_events_used_ = 0;
  std::vector<cuda::Event> side_marks_;  // of the current capture
  std::vector<cuda::Event> events_;      // of timings, nested ones last
  size_t events_used_ = 0;               // by current timings
  std::vector<cuda::Event> marks_;       // reused by later timelines
  size_t marks_used_ = 0;
  bool capturing_ = false;
  QueueWatch* watch_ = nullptr;
  Op last_op_ = Op::input;
  std::string last_name_;
  SetupClock setup_;
  std::vector<std::byte> encoded_params_;  // of the current launch
  std::string lost_since_;                 // what broke the context; empty: intact
};

}  // namespace ridgeline
