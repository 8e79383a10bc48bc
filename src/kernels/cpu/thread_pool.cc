#include "kernels/cpu/thread_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/error.h"

namespace ridgeline {

struct ThreadPool::State {
  using Task = std::function<void(int64_t, int)>;

  // Spinning threads take no lock, since they would contend for it at the start and end of every
  // call. The mutex is for sleeping threads.
  std::mutex mutex;
  std::condition_variable wake;
  std::condition_variable done;
  const Task* task = nullptr;  // written before `posted`, and again when all workers are done
  int64_t count = 0;
  std::atomic<uint64_t> posted{0};  // calls so far; changes under the mutex
  std::atomic<int> busy{0};         // number of workers
  bool stopping = false;            // guarded by the mutex, like `failure`
  std::exception_ptr failure;
  std::atomic<int64_t> next{0};
  std::vector<std::thread> workers;

  std::vector<std::vector<ThreadSpan>>* spans = nullptr;  // changes between calls only

  // Records when `thread` worked, if spans are requested.
  template <class Work>
  void note_span(int thread, Work work) {
    if (spans == nullptr) [[likely]] {
      work();
      return;
    }
    const int64_t begin = monotonic_ns();
    if (work()) (*spans)[static_cast<size_t>(thread)].push_back({begin, monotonic_ns()});
  }

  void work(const Task& current, int64_t total, int thread) {
    note_span(thread, [&] { return take_indices(current, total, thread); });
  }

  // Returns whether there was any index left.
  bool take_indices(const Task& current, int64_t total, int thread) {
    bool any = false;
    for (int64_t index; (index = next.fetch_add(1, std::memory_order_relaxed)) < total;) {
      any = true;
      try {
        current(index, thread);
      } catch (...) {
        const std::lock_guard lock(mutex);
        if (!failure) failure = std::current_exception();
        next.store(total, std::memory_order_relaxed);
      }
    }
    return any;
  }

  // Kernels follow each other within microseconds, and their parts end about as close together:
  // sleeping and waking would take longer than the wait.
  template <class Condition>
  static void spin_while(Condition waiting) {
    for (int spin = 0; spin < 2000 && waiting(); ++spin) __builtin_ia32_pause();
  }

  void stop() {
    {
      const std::lock_guard lock(mutex);
      stopping = true;
    }
    wake.notify_all();
    for (std::thread& worker : workers) worker.join();
  }

  void worker(int thread) {
    for (uint64_t seen = 0;; ++seen) {
      const auto is_posted = [&] { return posted.load(std::memory_order_acquire) != seen; };
      spin_while([&] { return !is_posted(); });
      if (!is_posted()) {
        std::unique_lock lock(mutex);
        wake.wait(lock, [&] { return stopping || is_posted(); });
        if (stopping) return;
      }
      work(*task, count, thread);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) > 1) continue;
      const std::lock_guard lock(mutex);  // the caller is not between its check and its wait
      done.notify_one();
    }
  }
};

ThreadPool::ThreadPool(int threads) : state_(std::make_unique<State>()) {
  if (threads < 1)
    throw Error(ErrorKind::usage, fmt::format("{} threads asked for", threads),
                "ask for at least 1");
  try {
    for (int thread = 1; thread < threads; ++thread)
      state_->workers.emplace_back([this, thread] { state_->worker(thread); });
  } catch (const std::system_error& error) {
    const size_t started = state_->workers.size() + 1;
    state_->stop();
    throw Error(ErrorKind::environment,
                fmt::format("only {} of {} threads could be started: {}", started, threads,
                            error.code().message()),
                "give fewer --threads, or raise the limit (ulimit -u, ulimit -v)");
  }
}

ThreadPool::~ThreadPool() {
  state_->stop();
}

int ThreadPool::threads() const {
  return static_cast<int>(state_->workers.size()) + 1;
}

void ThreadPool::set_spans(std::vector<std::vector<ThreadSpan>>* spans) {
  if (spans != nullptr) spans->resize(static_cast<size_t>(threads()));
  state_->spans = spans;
}

void ThreadPool::for_each(int64_t count, const State::Task& task) {
  if (count <= 0) return;
  if (count == 1 || state_->workers.empty()) {
    state_->note_span(0, [&] {
      for (int64_t index = 0; index < count; ++index) task(index, 0);
      return true;
    });
    return;
  }
  State& state = *state_;
  {
    const std::lock_guard lock(state.mutex);
    state.task = &task;
    state.count = count;
    state.next.store(0, std::memory_order_relaxed);
    state.busy = static_cast<int>(state.workers.size());
    state.failure = nullptr;
    state.posted.fetch_add(1, std::memory_order_release);
  }
  state.wake.notify_all();
  state.work(task, count, 0);
  const auto is_busy = [&] { return state.busy.load(std::memory_order_acquire) != 0; };
  State::spin_while(is_busy);
  std::unique_lock lock(state.mutex);
  state.done.wait(lock, [&] { return !is_busy(); });
  if (state.failure) std::rethrow_exception(state.failure);
}

void ThreadPool::for_each_nearby(int64_t count, const State::Task& task) {
  const int64_t parts = threads();
  if (parts == 1 || count <= 1) return for_each(count, task);
  // Part p is [count p / parts, count (p + 1) / parts). Every call takes one index, from its own
  // part while that lasts; there are as many calls as indices, so each gets one.
  struct alignas(64) Share {
    std::atomic<int64_t> next;
  };
  std::vector<Share> taken(static_cast<size_t>(parts));
  for (int64_t part = 0; part < parts; ++part)
    taken[static_cast<size_t>(part)].next = count * part / parts;
  for_each(count, [&](int64_t, int thread) {
    for (int64_t offset = 0; offset < parts; ++offset) {
      const int64_t part = (thread + offset) % parts;
      const int64_t index =
          taken[static_cast<size_t>(part)].next.fetch_add(1, std::memory_order_relaxed);
      if (index < count * (part + 1) / parts) return task(index, thread);
    }
  });
}

void ThreadPool::for_range(int64_t count, int64_t grain,
                           const std::function<void(int64_t, int64_t)>& task) {
  // Four ranges per thread compensate for time that other processes take from one of them.
  const int64_t most = int64_t{threads()} * 4;
  const int64_t ranges = std::clamp<int64_t>(count / std::max<int64_t>(grain, 1), 1, most);
  if (count <= 0) return;
  for_each_nearby(ranges, [&](int64_t range, int) {
    task(count * range / ranges, count * (range + 1) / ranges);
  });
}

}  // namespace ridgeline
