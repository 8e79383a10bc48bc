#include "dist/silent_communicator.h"

#include "dist/host_communicator.h"

namespace ridgeline {
namespace {

class SilentCommunicator final : public Communicator {
 public:
  SilentCommunicator(int rank, int size)
      : facts_{.backend = "silent",
               .library = "none",
               .rank = rank,
               .size = size,
               .is_queued = true} {}

  const CommunicatorFacts& facts() const override { return facts_; }

  EventRef start(const Collective& what, std::vector<EventRef>) override {
    check_collective(what, size());
    auto done = std::make_shared<HostEvent>();
    done->set();
    return done;
  }

 private:
  CommunicatorFacts facts_;
};

}  // namespace

std::unique_ptr<Communicator> make_silent_communicator(int rank, int size) {
  return std::make_unique<SilentCommunicator>(rank, size);
}

}  // namespace ridgeline
