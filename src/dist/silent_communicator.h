// A communicator whose collectives move nothing and are done at once: with it a step takes the time
// of its computation alone, and tells when it would have communicated.
#pragma once

#include <memory>

#include "dist/communicator.h"

namespace ridgeline {

// `other`: in whose place it stands. What a launch graph could have of it, it can have of this one.
std::unique_ptr<Communicator> make_silent_communicator(const CommunicatorFacts& other);

}  // namespace ridgeline
