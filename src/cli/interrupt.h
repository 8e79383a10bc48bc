// Ctrl-C, or the end that a batch system asks for, as a question that a sweep can ask.
#pragma once

namespace ridgeline {

// From here on the first SIGINT or SIGTERM is only noted; a second one ends the process at once.
void watch_for_interrupts();
bool interrupted();

inline constexpr int kInterruptedExit = 130;

}  // namespace ridgeline
