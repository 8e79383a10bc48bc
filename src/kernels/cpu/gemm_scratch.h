// Memory for the packed operands of matrix products, which a thread keeps from one to the next.
#pragma once

#include <cstdint>

namespace ridgeline {

// In huge pages where the system has them: small ones are scattered, and some would then share
// their places in a cache.
class GemmScratch {
 public:
  GemmScratch() = default;
  GemmScratch(const GemmScratch&) = delete;
  GemmScratch& operator=(const GemmScratch&) = delete;
  ~GemmScratch();

  // What was there before may be gone. Throws an out_of_memory error.
  float* at_least(int64_t floats);

 private:
  float* data_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace ridgeline
