// The process that runs a kernel of the user's, so that nothing else is harmed by it.
#pragma once

#include <iosfwd>

namespace ridgeline {

// Not for people: the command of the program that runs a kernel of the user's.
inline constexpr const char* kOwnKernelWorkerCommand = "own-kernel-worker";

// Answers the protocol of docs/peers.md, line by line, until the input ends.
void serve_own_kernel(std::istream& requests, std::ostream& answers);

}  // namespace ridgeline
