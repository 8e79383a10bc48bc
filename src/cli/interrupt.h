// Turns SIGINT (Ctrl-C) and SIGTERM into a flag that sweeps poll.
#pragma once

namespace ridgeline {

// From now on the first SIGINT or SIGTERM only sets the flag; a second one ends the process.
void watch_for_interrupts();
bool interrupted();

inline constexpr int kInterruptedExit = 130;

}  // namespace ridgeline
