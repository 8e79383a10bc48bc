#include "dist/device_communicator.h"

#include "dist/host_communicator.h"
#include "dist/nccl_communicator.h"

namespace ridgeline {
namespace {

// Bytes of the operands on a rank: of the whole buffer, or of its shard.
struct OperandBytes {
  size_t in = 0, out = 0;
};

OperandBytes operand_bytes(const Collective& what, int rank, int ranks) {
  const auto whole = static_cast<size_t>(what.bytes());
  const auto shard =
      static_cast<size_t>(shard_of(what.count, rank, ranks).count * info(what.dtype).size);
  switch (what.kind) {
    case CollectiveKind::all_reduce:
      return {whole, whole};
    case CollectiveKind::reduce_scatter:
      return {whole, shard};
    case CollectiveKind::all_gather:
      return {shard, whole};
    case CollectiveKind::broadcast:
      return {rank == what.root ? whole : 0, whole};
    case CollectiveKind::barrier:
      break;
  }
  return {};
}

// Copies operands to the host, runs the collective there, and copies the result back, in sequence.
class StagedBackend final : public HostBackend {
 public:
  StagedBackend(Communicator& host, DeviceQueue& queue)
      : host_(host), queue_(queue), facts_(host.facts()) {
    facts_.library += ", staged through page-locked memory of the host";
  }

  const CommunicatorFacts& facts() const override { return facts_; }

  void run(const Collective& what) override {
    const OperandBytes bytes = operand_bytes(what, host_.rank(), host_.size());
    if (bytes.out == 0 && bytes.in == 0) return host_.run(what);
    queue_.make_current();
    Collective staged = what;
    void* in = in_.at_least(queue_, bytes.in);
    staged.in = in;
    staged.out = what.kind == CollectiveKind::all_reduce ? in : out_.at_least(queue_, bytes.out);
    if (bytes.in > 0) {
      queue_.copy_to_host(in, what.in != nullptr ? what.in : what.out, bytes.in);
      queue_.record()->wait();
    }
    host_.run(staged);
    if (bytes.out == 0) return;
    queue_.copy_from_host(what.out, staged.out, bytes.out);
    queue_.record()->wait();
  }

 private:
  struct Buffer {
    std::shared_ptr<void> memory;
    size_t bytes = 0;

    // Never returns null, which a communicator would reject even for an empty shard.
    void* at_least(DeviceQueue& queue, size_t wanted) {
      if (!memory || wanted > bytes) {
        memory.reset();
        bytes = std::max<size_t>(wanted, 1);
        memory = queue.host_memory(bytes);
      }
      return memory.get();
    }
  };

  Communicator& host_;
  DeviceQueue& queue_;
  CommunicatorFacts facts_;
  Buffer in_, out_;
};

std::string shared_nccl_id(Communicator& host) {
  std::string id(kNcclIdBytes, '\0');
  if (host.rank() == 0) id = make_nccl_id();
  host.run({.kind = CollectiveKind::broadcast,
            .dtype = DType::i32,
            .count = static_cast<int64_t>(kNcclIdBytes / sizeof(int32_t)),
            .in = id.data(),
            .out = id.data(),
            .name = "the id of NCCL"});
  return id;
}

}  // namespace

std::unique_ptr<Communicator> make_device_communicator(Communicator& host, DeviceQueue& queue,
                                                       std::string_view backend) {
  if (backend != kNcclBackend)
    return make_host_communicator(std::make_unique<StagedBackend>(host, queue));
  queue.make_current();
  return make_nccl_communicator(
      {.rank = host.rank(), .size = host.size(), .id = shared_nccl_id(host)}, queue);
}

}  // namespace ridgeline
