#include "dist/threads_backend.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/processors.h"
#include "dist/host_communicator.h"
#include "dist/reduce.h"

namespace ridgeline {

struct ThreadGroup::State {
  int size;
  double deadline_s;
  int64_t spin_ns = 0;  // before a rank sleeps; 0 where ranks share processors
  std::mutex mutex;
  std::condition_variable changed;
  int arrived = 0;
  std::atomic<uint64_t> generation{0};
  std::atomic<int> who_left{-1};
  std::vector<Collective> posted;  // by rank; read between the two barriers of a collective
  std::vector<bool> taken;
};

namespace {

constexpr int64_t kSpinNs = 20'000;
constexpr int64_t kSliceElements = 64;  // granularity of slices, so that none share a cache line

class ThreadsBackend final : public HostBackend {
 public:
  ThreadsBackend(std::shared_ptr<ThreadGroup::State> group, int rank)
      : group_(std::move(group)), facts_{"threads", "threads of one process", rank, group_->size} {}

  ~ThreadsBackend() override {
    const std::lock_guard lock(group_->mutex);
    int nobody = -1;
    group_->who_left.compare_exchange_strong(nobody, facts_.rank);
    group_->changed.notify_all();
  }

  const CommunicatorFacts& facts() const override { return facts_; }

  void run(const Collective& what) override {
    if (group_->size == 1 && what.kind == CollectiveKind::barrier) return;
    group_->posted[static_cast<size_t>(facts_.rank)] = what;
    wait_for_all(what);
    expect_the_same(what);
    const int size = info(what.dtype).size;
    switch (what.kind) {
      case CollectiveKind::barrier:
        break;
      case CollectiveKind::all_reduce: {
        // This rank reduces one slice and writes it to the buffers of all ranks.
        const int64_t unit = (what.count + kSliceElements - 1) / kSliceElements;
        const Shard units = shard_of(unit, facts_.rank, group_->size);
        const int64_t begin = std::min(what.count, units.begin * kSliceElements);
        const int64_t end = std::min(what.count, (units.begin + units.count) * kSliceElements);
        sum(what.dtype, begin, end - begin, outs_at(begin, size));
        break;
      }
      case CollectiveKind::reduce_scatter: {
        const Shard shard = shard_of(what.count, facts_.rank, group_->size);
        sum(what.dtype, shard.begin, shard.count, {what.out});
        break;
      }
      case CollectiveKind::all_gather:
        for (int rank = 0; rank < group_->size; ++rank) {
          const Shard shard = shard_of(what.count, rank, group_->size);
          copy(static_cast<char*>(what.out) + shard.begin * size, posted(rank).in,
               shard.count * size);
        }
        break;
      case CollectiveKind::broadcast: {
        const Collective& root = posted(what.root);
        copy(what.out, root.in != nullptr ? root.in : root.out, what.bytes());
        break;
      }
    }
    wait_for_all(what);
  }

 private:
  const Collective& posted(int rank) const { return group_->posted[static_cast<size_t>(rank)]; }

  static void copy(void* to, const void* from, int64_t bytes) {
    if (to != from && bytes > 0) std::memcpy(to, from, static_cast<size_t>(bytes));
  }

  std::vector<void*> outs_at(int64_t begin, int size) const {
    std::vector<void*> outs;
    for (const Collective& each : group_->posted)
      outs.push_back(static_cast<char*>(each.out) + begin * size);
    return outs;
  }

  void sum(DType dtype, int64_t begin, int64_t count, const std::vector<void*>& outs) const {
    std::vector<const void*> parts;
    for (const Collective& each : group_->posted)
      parts.push_back(static_cast<const char*>(each.in) + begin * info(dtype).size);
    sum_in_rank_order(dtype, parts, outs, count);
  }

  void expect_the_same(const Collective& mine) const {
    for (int rank = 0; rank < group_->size; ++rank) {
      const Collective& other = posted(rank);
      if (other.kind == mine.kind && other.count == mine.count && other.dtype == mine.dtype &&
          other.root == mine.root)
        continue;
      throw Error(ErrorKind::internal,
                  fmt::format("rank {} is in {}, and rank {} is in {}", facts_.rank, describe(mine),
                              rank, describe(other)));
    }
  }

  void wait_for_all(const Collective& what) {
    ThreadGroup::State& group = *group_;
    std::unique_lock lock(group.mutex);
    const uint64_t before = group.generation;
    if (++group.arrived == group.size) {
      group.arrived = 0;
      ++group.generation;
      group.changed.notify_all();
      return;
    }
    const auto is_over = [&] { return group.generation != before || group.who_left >= 0; };
    if (group.spin_ns > 0) {
      lock.unlock();
      const int64_t until = monotonic_ns() + group.spin_ns;
      while (!is_over() && monotonic_ns() < until) continue;
      lock.lock();
    }
    const bool in_time =
        group.changed.wait_for(lock, std::chrono::duration<double>(group.deadline_s), is_over);
    if (group.generation != before) return;
    --group.arrived;
    if (in_time)
      throw Error(ErrorKind::environment,
                  fmt::format("rank {} left while rank {} was in {}", group.who_left.load(),
                              facts_.rank, describe(what)));
    throw Error(
        ErrorKind::environment,
        fmt::format("{} of {} ranks came to {} within {:g} s; rank {} waits for the others",
                    group.arrived + 1, group.size, describe(what), group.deadline_s, facts_.rank));
  }

  std::shared_ptr<ThreadGroup::State> group_;
  CommunicatorFacts facts_;
};

}  // namespace

ThreadGroup::ThreadGroup(int size, double deadline_s) : state_(std::make_shared<State>()) {
  if (size < 1)
    throw Error(ErrorKind::usage, fmt::format("a group of {} ranks was asked for", size),
                "give 1 or more");
  state_->size = size;
  state_->deadline_s = deadline_s;
  if (static_cast<size_t>(size) <= allowed_processors().size()) state_->spin_ns = kSpinNs;
  state_->posted.resize(static_cast<size_t>(size));
  state_->taken.resize(static_cast<size_t>(size));
}

ThreadGroup::~ThreadGroup() = default;

std::unique_ptr<Communicator> ThreadGroup::communicator(int rank) {
  {
    const std::lock_guard lock(state_->mutex);
    if (rank < 0 || rank >= state_->size || state_->taken[static_cast<size_t>(rank)])
      throw Error(ErrorKind::internal,
                  fmt::format("rank {} of a group of {} is taken or is none", rank, state_->size));
    state_->taken[static_cast<size_t>(rank)] = true;
  }
  return make_host_communicator(std::make_unique<ThreadsBackend>(state_, rank));
}

}  // namespace ridgeline
