// Host memory, whose availability is checked before it is allocated, so that the OOM killer never
// acts.
#pragma once

#include "runtime/ledger.h"

namespace ridgeline {

// What is available now, less a margin for other processes.
Bytes default_host_budget();

class HostMemory : public MemorySource {
 public:
  void* acquire(Bytes bytes, std::string& reason) override;
  void give_back(void* data, Bytes bytes) override;

 private:
  int64_t next_shift();

  int64_t shift_ = 0;
};

}  // namespace ridgeline
