// A library that stands in for libnccl.so.2: ranks are threads of one process, memory is the
// process's own (fake_gpu.cc), and every call is done when it returns. Calls in a group run one by
// one, in the same order on all ranks.
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "dist/nccl_api.h"

namespace {

using namespace ridgeline::nccl;

struct Group {
  std::mutex mutex;
  std::condition_variable changed;
  int size = 1, arrived = 0;
  uint64_t turn = 0;
  std::vector<const void*> in;
};

struct Rank {
  Group* group;
  int rank;
};

std::mutex groups_mutex;
std::map<std::string, Group> groups;

void barrier(Group& group) {
  std::unique_lock lock(group.mutex);
  const uint64_t mine = group.turn;
  if (++group.arrived == group.size) {
    group.arrived = 0;
    ++group.turn;
    group.changed.notify_all();
    return;
  }
  group.changed.wait(lock, [&] { return group.turn != mine; });
}

size_t bytes_of(DataType type) {
  return type == kFloat16 || type == kBfloat16 ? 2 : 4;
}

std::vector<char> summed(const std::vector<const void*>& in, size_t begin, size_t count) {
  std::vector<float> sum(count);
  for (const void* each : in)
    for (size_t i = 0; i < count; ++i) sum[i] += static_cast<const float*>(each)[begin + i];
  const char* bytes = reinterpret_cast<const char*>(sum.data());
  return {bytes, bytes + count * sizeof(float)};
}

// Shows the operands of all ranks to `work`; what it returns lands in `out` when all have read.
template <class Work>
Result into(Comm comm, const void* in, void* out, const Work& work) {
  const Rank& mine = *reinterpret_cast<Rank*>(comm);
  Group& group = *mine.group;
  group.in[static_cast<size_t>(mine.rank)] = in;
  barrier(group);
  const std::vector<char> result = work(group.in, static_cast<size_t>(mine.rank));
  barrier(group);
  std::memcpy(out, result.data(), result.size());
  return kSuccess;
}

}  // namespace

#define FAKE(name) extern "C" Result name

FAKE(ncclGetVersion)(int* version) {
  return *version = 29999, kSuccess;
}
extern "C" const char* ncclGetErrorString(Result) {
  return "an error of the stand-in";
}
FAKE(ncclGetUniqueId)(UniqueId* id) {
  static int next = 0;
  std::memset(id->bytes, 0, sizeof id->bytes);
  id->bytes[0] = static_cast<char>(++next);
  return kSuccess;
}
FAKE(ncclCommInitRankConfig)(Comm* comm, int size, UniqueId id, int rank, Config*) {
  const std::lock_guard lock(groups_mutex);
  Group& group = groups[std::string(id.bytes, sizeof id.bytes)];
  group.size = size;
  group.in.resize(static_cast<size_t>(size));
  *comm = reinterpret_cast<Comm>(new Rank{&group, rank});
  return kSuccess;
}
FAKE(ncclCommDestroy)(Comm comm) {
  return delete reinterpret_cast<Rank*>(comm), kSuccess;
}
FAKE(ncclCommAbort)(Comm comm) {
  return ncclCommDestroy(comm);
}
FAKE(ncclCommGetAsyncError)(Comm, Result* error) {
  return *error = kSuccess, kSuccess;
}
FAKE(ncclGroupStart)() {
  return kSuccess;
}
FAKE(ncclGroupEnd)() {
  return kSuccess;
}
FAKE(ncclAllReduce)
(const void* in, void* out, size_t count, DataType, Op, Comm comm, Stream) {
  return into(comm, in, out, [&](const auto& all, size_t) { return summed(all, 0, count); });
}
FAKE(ncclReduce)
(const void* in, void* out, size_t count, DataType, Op, int root, Comm comm, Stream) {
  return into(comm, in, out, [&](const auto& all, size_t rank) {
    return static_cast<int>(rank) == root ? summed(all, 0, count) : std::vector<char>();
  });
}
FAKE(ncclReduceScatter)
(const void* in, void* out, size_t shard, DataType, Op, Comm comm, Stream) {
  return into(comm, in, out,
              [&](const auto& all, size_t rank) { return summed(all, rank * shard, shard); });
}
FAKE(ncclAllGather)
(const void* in, void* out, size_t shard, DataType type, Comm comm, Stream) {
  return into(comm, in, out, [&](const auto& all, size_t) {
    std::vector<char> whole;
    for (const void* each : all) {
      const char* bytes = static_cast<const char*>(each);
      whole.insert(whole.end(), bytes, bytes + shard * bytes_of(type));
    }
    return whole;
  });
}
FAKE(ncclBroadcast)
(const void* in, void* out, size_t count, DataType type, int root, Comm comm, Stream) {
  return into(comm, in, out, [&](const auto& all, size_t) {
    const char* bytes = static_cast<const char*>(all[static_cast<size_t>(root)]);
    return std::vector<char>(bytes, bytes + count * bytes_of(type));
  });
}
