// Ctrl-C as a question that a sweep can ask.
#pragma once

namespace ridgeline {

// From here on the first Ctrl-C is only noted; a second one ends the process at once.
void watch_for_interrupts();
bool interrupted();

inline constexpr int kInterruptedExit = 130;

}  // namespace ridgeline
