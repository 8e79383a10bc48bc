#include "dist/nccl_communicator.h"

#include <fmt/format.h>

#include <cstring>

#include "base/error.h"
#include "dist/nccl_api.h"
#include "jit/cuda_libraries.h"

namespace ridgeline {

namespace nccl {

const Api& require_api() {
  static const CudaLibrary& library = cuda_library("nccl");
  static Api api;
  static const std::string missing = load_functions(library, api);
  if (!library)
    throw Error(ErrorKind::unsupported,
                fmt::format("NCCL was not found; tried {}", tried_text(library)),
                library.how_to_get);
  if (!missing.empty())
    throw Error(ErrorKind::unsupported, fmt::format("{} has no {}", library.path, missing),
                library.how_to_get);
  return api;
}

}  // namespace nccl

namespace {

void check_nccl(const nccl::Api& api, nccl::Result result, const std::string& what) {
  if (result == nccl::kSuccess || result == nccl::kInProgress) return;
  throw Error(ErrorKind::environment,
              fmt::format("NCCL failed in {}: {}", what, api.ncclGetErrorString(result)),
              "NCCL_DEBUG=INFO makes it say more");
}

nccl::DataType nccl_type(DType dtype) {
  switch (dtype) {
    case DType::f32:
    case DType::tf32:
      return nccl::kFloat32;
    case DType::bf16:
      return nccl::kBfloat16;
    case DType::f16:
      return nccl::kFloat16;
    case DType::i32:
      return nccl::kInt32;
    case DType::boolean:
      break;
  }
  throw Error(ErrorKind::usage, fmt::format("a collective in {} was asked for", info(dtype).name),
              "NCCL serves fp32, bf16, fp16 and i32 here");
}

// Kernels that overlap with a collective leave this many multiprocessors free. A guess: finding the
// best number takes measurements on several GPUs.
constexpr int kMaxBlocks = 16;

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(const NcclOptions& options, DeviceQueue& queue)
      : api_(nccl::require_api()), queue_(queue) {
    static_assert(sizeof nccl::UniqueId::bytes == kNcclIdBytes);
    nccl::UniqueId id{};
    if (options.id.size() != sizeof id.bytes)
      throw Error(ErrorKind::internal, fmt::format("an id of NCCL has {} bytes, and {} were given",
                                                   sizeof id.bytes, options.id.size()));
    std::memcpy(id.bytes, options.id.data(), sizeof id.bytes);
    int version = 0;
    check_nccl(api_, api_.ncclGetVersion(&version), "ncclGetVersion");
    nccl::Config config;
    config.max_blocks = kMaxBlocks;
    check_nccl(api_, api_.ncclCommInitRankConfig(&comm_, options.size, id, options.rank, &config),
               fmt::format("the start of rank {} of {}", options.rank, options.size));
    facts_ = {"nccl",
              fmt::format("NCCL {}.{}.{}", version / 10000, version / 100 % 100, version % 100),
              options.rank,
              options.size,
              true,
              options.size > 1 ? kMaxBlocks : 0};
  }

  ~NcclCommunicator() override {
    nccl::Result failed = nccl::kSuccess;
    api_.ncclCommGetAsyncError(comm_, &failed);
    if (failed == nccl::kSuccess)
      api_.ncclCommDestroy(comm_);
    else
      api_.ncclCommAbort(comm_);  // ncclCommDestroy would wait for ranks that have ended
  }

  const CommunicatorFacts& facts() const override { return facts_; }

  EventRef start(const Collective& what, std::vector<EventRef> after) override {
    check_collective(what, size());
    queue_.make_current();
    for (const EventRef& event : after) queue_.wait_for(*event);
    const EventRef began = queue_.record();
    const nccl::DataType type = nccl_type(what.dtype);
    const auto count = static_cast<size_t>(what.count);
    const bool shards_are_equal = what.count % size() == 0;
    const size_t shard = count / static_cast<size_t>(size());
    const nccl::Stream stream = queue_.stream();
    switch (what.kind) {
      case CollectiveKind::barrier:
        if (size() > 1)
          throw Error(ErrorKind::unsupported, "NCCL has no barrier",
                      "wait at the store of the run, or sum one element");
        break;
      case CollectiveKind::all_reduce:
        check(what, api_.ncclAllReduce(what.in, what.out, count, type, nccl::kSum, comm_, stream));
        break;
      case CollectiveKind::reduce_scatter:
        if (shards_are_equal)
          check(what,
                api_.ncclReduceScatter(what.in, what.out, shard, type, nccl::kSum, comm_, stream));
        else
          for_each_shard(what, [&](const Shard& part, int owner) {
            return api_.ncclReduce(at(what.in, what.dtype, part.begin), what.out,
                                   static_cast<size_t>(part.count), type, nccl::kSum, owner, comm_,
                                   stream);
          });
        break;
      case CollectiveKind::all_gather:
        if (shards_are_equal)
          check(what, api_.ncclAllGather(what.in, what.out, shard, type, comm_, stream));
        else
          for_each_shard(what, [&](const Shard& part, int owner) {
            void* to = const_cast<char*>(at(what.out, what.dtype, part.begin));
            return api_.ncclBroadcast(owner == rank() ? what.in : to, to,
                                      static_cast<size_t>(part.count), type, owner, comm_, stream);
          });
        break;
      case CollectiveKind::broadcast:
        check(what, api_.ncclBroadcast(what.in != nullptr ? what.in : what.out, what.out, count,
                                       type, what.root, comm_, stream));
        break;
    }
    return queue_.record(began);
  }

 private:
  void check(const Collective& what, nccl::Result result) const {
    check_nccl(api_, result, describe(what));
  }

  static const char* at(const void* data, DType dtype, int64_t element) {
    return static_cast<const char*>(data) + element * info(dtype).size;
  }

  // NCCL's collectives need equal shards; unequal ones take one call per shard, in one group.
  template <class Call>
  void for_each_shard(const Collective& what, const Call& call) const {
    check(what, api_.ncclGroupStart());
    nccl::Result first = nccl::kSuccess;
    for (int owner = 0; owner < size() && first == nccl::kSuccess; ++owner)
      if (const Shard part = shard_of(what.count, owner, size()); part.count > 0)
        first = call(part, owner);
    const nccl::Result ended = api_.ncclGroupEnd();
    check(what, first);
    check(what, ended);
  }

  const nccl::Api& api_;
  DeviceQueue& queue_;
  nccl::Comm comm_ = nullptr;
  CommunicatorFacts facts_;
};

}  // namespace

std::string make_nccl_id() {
  const nccl::Api& api = nccl::require_api();
  nccl::UniqueId id{};
  check_nccl(api, api.ncclGetUniqueId(&id), "ncclGetUniqueId");
  return {id.bytes, sizeof id.bytes};
}

std::unique_ptr<Communicator> make_nccl_communicator(const NcclOptions& options,
                                                     DeviceQueue& queue) {
  return std::make_unique<NcclCommunicator>(options, queue);
}

}  // namespace ridgeline
