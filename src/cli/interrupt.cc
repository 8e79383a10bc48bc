#include "cli/interrupt.h"

#include <atomic>
#include <csignal>

namespace ridgeline {
namespace {

std::atomic<bool> interrupt_seen{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

void on_interrupt(int) {
  interrupt_seen = true;
  std::signal(SIGINT, SIG_DFL);
}

}  // namespace

void watch_for_interrupts() {
  std::signal(SIGINT, on_interrupt);
}

bool interrupted() {
  return interrupt_seen;
}

}  // namespace ridgeline
