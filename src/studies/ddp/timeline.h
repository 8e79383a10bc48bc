// Records when a rank computes and communicates in one step.
#pragma once

#include <string>
#include <vector>

#include "dist/communicator.h"
#include "profile/rank_trace.h"
#include "runtime/collectives.h"
#include "runtime/kernel_observer.h"

namespace ridgeline {

// Times the kernels of a step, by the device's own clock if it has a queue.
class SliceObserver final : public KernelObserver {
 public:
  explicit SliceObserver(Device& device) : device_(device) {}
  void before(const KernelRun& run) override;
  void after(const KernelRun& run) override;

  // The kernels, with the collectives of the same step. Times count from `began_ns`.
  RankTimeline timeline(const std::vector<CollectiveRun>& collectives, int64_t began_ns) const;

 private:
  struct Seen {
    std::string name;
    int64_t begin_ns = 0, end_ns = 0;
    EventRef began = {}, ended = {};  // of a device with a queue
  };
  Device& device_;
  std::vector<Seen> seen_;
};

// Gathers the timelines of all ranks, in their order, on every rank.
std::vector<RankTimeline> timelines_of_all(Communicator& communicator, const RankTimeline& mine);

}  // namespace ridgeline
