// The stream on which a device's work runs in order, a second one beside it while work is captured,
// and the errors that surface on them.
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

// The context that a process shares per GPU, with PyTorch too where it is in the same process.
class PrimaryContext {
 public:
  // Throws a usage error when there is no GPU of that number.
  explicit PrimaryContext(int ordinal);
  ~PrimaryContext();
  PrimaryContext(const PrimaryContext&) = delete;
  PrimaryContext& operator=(const PrimaryContext&) = delete;

  cuda::DeviceHandle device() const { return device_; }
  cuda::Context handle() const { return context_; }
  void make_current() const;
  // For destructors, which must not throw even where the context is lost.
  bool try_make_current() const noexcept;

 private:
  cuda::DeviceHandle device_ = 0;
  cuda::Context context_ = nullptr;
};

// Makes a context current in this thread, and the one that was there again at the end.
class CurrentContext {
 public:
  // Without a context: whatever becomes current meanwhile.
  CurrentContext();
  explicit CurrentContext(const PrimaryContext& context);
  ~CurrentContext();
  CurrentContext(const CurrentContext&) = delete;
  CurrentContext& operator=(const CurrentContext&) = delete;

 private:
  cuda::Context before_ = nullptr;
  bool changed_ = false;
};

// Is told what a queue is about to do, outside of captures.
class QueueWatch {
 public:
  virtual ~QueueWatch() = default;
  virtual void before_start() = 0;  // of a kernel, a launch graph, a copy
  virtual void before_wait() = 0;   // of the host for the GPU
};

class CudaQueue {
 public:
  // On a stream of its own, or on the caller's, which outlives it.
  explicit CudaQueue(const PrimaryContext& context, std::optional<cuda::Stream> given = {});
  ~CudaQueue();
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  const cuda::Driver& driver() const { return driver_; }
  cuda::Stream stream() const { return on_side_ ? side_stream_ : main_stream(); }
  cuda::Stream main_stream() const { return redirected_ ? *redirected_ : stream_; }
  // All that follows goes to a stream of the caller's; none: to the queue's own again.
  void redirect(std::optional<cuda::Stream> stream) { redirected_ = stream; }
  const PrimaryContext& context() const { return context_; }
  void make_current() const { context_.make_current(); }
  bool try_make_current() const noexcept { return context_.try_make_current(); }

  // What is about to run: asynchronous errors name the node that was started last.
  void note(const Node& node);
  void launch(cuda::Function function, const CudaLaunch& launch);
  void synchronize();
  // Whoever starts work on stream() or makes the host wait other than through this class says so
  // first. A watch is there while the busy time is measured; null ends it.
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
  // The same of works that follow each other, with one event between two of them.
  std::vector<double> time_each_ms(std::span<const std::function<void()>> works);

  // Of all that uses this queue; see Device::setup_seconds().
  SetupClock& setup() { return setup_; }
  const SetupClock& setup() const { return setup_; }

  // See Device::mark().
  void mark();
  std::vector<double> take_marks_ms();

  // Throws for anything but success. After an error that breaks the context every call throws, and
  // says since when.
  void check(cuda::Result result, const char* what) {
    if (result != cuda::kSuccess) fail(result, what);
  }
  bool lost() const { return !lost_since_.empty(); }

  // Between begin and end, work is recorded and not run. Null: `end_capture` was told to drop it.
  void begin_capture();
  cuda::LaunchGraphExec end_capture(bool keep);
  bool capturing() const { return capturing_; }
  // Whether the caller captures the stream that it gave.
  bool caller_captures() const;
  // While work is captured: a second order of work, see Device::begin_side().
  void begin_side();
  size_t end_side();
  void join_side(size_t mark);
  bool on_side() const { return on_side_; }
  // What is started from now on, in both orders, comes after an event of another stream.
  void wait_for(cuda::Event event);
  // Throws when a capture is under way, ours or the caller's, in which `what` cannot be done.
  void require_no_capture(const char* what) const;

 private:
  [[noreturn]] void fail(cuda::Result result, const char* what);
  // Writes the tensor maps of a launch into its parameters.
  void encode_maps(const CudaLaunch& launch, std::span<std::byte> params);
  std::string last_node() const;
  cuda::Event next_event();
  float elapsed_ms(cuda::Event from, cuda::Event to);

  const PrimaryContext& context_;
  const cuda::Driver& driver_;
  cuda::Stream stream_ = nullptr;
  bool owns_stream_ = true;
  std::optional<cuda::Stream> redirected_;
  cuda::Stream side_stream_ = nullptr;  // made when it is used first
  int least_priority_ = 0;
  bool starts_early_ = false;  // the GPU starts a kernel while the one before it ends
  bool on_side_ = false;
  std::vector<cuda::Event> capture_events_;  // used again by the next capture
  size_t capture_events_used_ = 0;
  std::vector<cuda::Event> side_marks_;  // of the capture under way
  std::vector<cuda::Event> events_;      // of timings; those of nested ones come after
  size_t events_used_ = 0;               // by timings under way
  std::vector<cuda::Event> marks_;       // used again by later timelines
  size_t marks_used_ = 0;
  bool capturing_ = false;
  QueueWatch* watch_ = nullptr;
  Op last_op_ = Op::input;
  std::string last_name_;
  SetupClock setup_;
  std::vector<std::byte> encoded_params_;  // of the launch at hand
  std::string lost_since_;  // what broke the context; empty: nothing did
};

}  // namespace ridgeline
