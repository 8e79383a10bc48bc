#include "api/fork_count.h"

#include <pthread.h>

#include <atomic>

namespace ridgeline {
namespace {

std::atomic<int> forks = 0;

void count_fork() {
  forks.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

int fork_count() {
  static const int registered = pthread_atfork(nullptr, nullptr, count_fork);
  static_cast<void>(registered);
  return forks.load(std::memory_order_relaxed);
}

}  // namespace ridgeline
