// The process that runs the user's kernel, isolated from the rest of the measurement.
#pragma once

#include <iosfwd>

namespace ridgeline {

// An internal command of this program: it starts the process that runs the user's kernel.
inline constexpr const char* kOwnKernelWorkerCommand = "own-kernel-worker";

// Answers requests in the protocol of docs/peers.md, one per line, until the input ends.
void serve_own_kernel(std::istream& requests, std::ostream& answers);

}  // namespace ridgeline
