// Memory of this machine, asked for before it is taken, so that the kernel never has to kill
// anybody.
#pragma once

#include "runtime/ledger.h"

namespace ridgeline {

// What is available now, less a margin for everybody else.
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
