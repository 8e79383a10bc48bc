// A fixed set of threads that share index ranges; the only source of CPU parallelism here.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace ridgeline {

// The time in which one thread worked on one call of for_each.
struct ThreadSpan {
  int64_t begin_ns = 0, end_ns = 0;  // of monotonic_ns()
};

class ThreadPool {
 public:
  // The calling thread works too, so `threads` = 1 starts none. Throws a usage error below 1, and
  // an environment error if the system refuses to start threads.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const;

  // Calls task(index, thread) for every index in [0, count), handed out one at a time in increasing
  // order, and returns when all are done; thread is in [0, threads()). The first exception thrown
  // by a task is rethrown here. Not reentrant.
  void for_each(int64_t count, const std::function<void(int64_t index, int thread)>& task);

  // The same, but each thread completes its own part before it helps others. Kernels that divide
  // their tensors alike then find in a core's cache what the previous kernel left there.
  void for_each_nearby(int64_t count, const std::function<void(int64_t index, int thread)>& task);

  // Splits [0, count) into ranges of at least `grain` and calls task(begin, end) for each, nearby.
  void for_range(int64_t count, int64_t grain,
                 const std::function<void(int64_t begin, int64_t end)>& task);

  // From now on each thread appends its spans to its own element, one per thread; null: none does.
  // Read and change it only between calls.
  void set_spans(std::vector<std::vector<ThreadSpan>>* spans);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace ridgeline
