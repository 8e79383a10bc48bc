#include "cli/interrupt.h"

#include <atomic>
#include <csignal>

namespace ridgeline {
namespace {

std::atomic<bool> interrupt_seen{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

constexpr int kSignals[] = {SIGINT, SIGTERM};  // by Ctrl-C; by timeout, batch system, container

void on_interrupt(int) {
  interrupt_seen = true;
  for (const int signal : kSignals) std::signal(signal, SIG_DFL);
}

}  // namespace

void watch_for_interrupts() {
  for (const int signal : kSignals) std::signal(signal, on_interrupt);
}

bool interrupted() {
  return interrupt_seen;
}

}  // namespace ridgeline
