// A communicator over host memory: a blocking backend, and a thread that runs collectives started
// asynchronously.
#pragma once

#include <memory>

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

// An event that a host thread sets.
class HostEvent final : public Event {
 public:
  HostEvent();
  ~HostEvent() override;
  void wait() override;
  bool is_done() const override;
  std::optional<EventSpan> span() const override;
  void set();
  void set_span(EventSpan span);  // before set() or fail()
  void fail(std::exception_ptr why);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ridgeline
