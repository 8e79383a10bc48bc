// A communicator whose collectives move no data and complete at once, to measure the computation of
// a step alone, and when it would have communicated.
#pragma once

#include <memory>

#include "dist/communicator.h"

namespace ridgeline {

// `other`: the facts of the communicator that it replaces, of which it keeps all but backend and
// library.
std::unique_ptr<Communicator> make_silent_communicator(const CommunicatorFacts& other);

}  // namespace ridgeline
