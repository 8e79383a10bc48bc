// A communicator over host memory: a backend that blocks, and a communication thread that runs what
// was started for later.
#pragma once

#include <memory>

#include "dist/activity.h"
#include "dist/communicator.h"

namespace ridgeline {

// What a library of the host offers. One thread at a time calls it.
class HostBackend {
 public:
  virtual ~HostBackend() = default;
  virtual const CommunicatorFacts& facts() const = 0;
  virtual void run(const Collective& what) = 0;  // returns when this rank's part is done
};

// `activity` is told what is under way, and may be null; it must outlive the communicator.
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
