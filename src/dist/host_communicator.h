// A communicator over host memory: a blocking backend, and a thread that runs collectives started
// asynchronously.
#pragma once

#include <chrono>
#include <exception>
#include <future>
#include <memory>
#include <optional>
#include <utility>

#include "dist/activity.h"
#include "dist/communicator.h"

namespace ridgeline {

// The blocking interface to a library. One thread at a time calls it.
class HostBackend {
 public:
  virtual ~HostBackend() = default;
  virtual const CommunicatorFacts& facts() const = 0;
  virtual void run(const Collective& what) = 0;  // returns when this rank's part is done
};

// The communicator records its running collective in `activity`, which may be null and must outlive
// it.
std::unique_ptr<Communicator> make_host_communicator(std::unique_ptr<HostBackend> backend,
                                                     RankActivity* activity = nullptr);

// An event that a host thread sets once.
class HostEvent final : public Event {
 public:
  void wait() override { done_.get(); }
  bool is_done() const override {
    return done_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }
  std::optional<EventSpan> span() const override { return is_done() ? span_ : std::nullopt; }
  void set_span(EventSpan span) { span_ = span; }  // before set() or fail()
  void set() { promise_.set_value(); }
  void fail(std::exception_ptr why) { promise_.set_exception(std::move(why)); }

 private:
  std::promise<void> promise_;
  std::shared_future<void> done_ = promise_.get_future();
  std::optional<EventSpan> span_;
};

}  // namespace ridgeline
