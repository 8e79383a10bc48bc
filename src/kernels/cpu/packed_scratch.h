// Memory for packed operands and tiles of products and attention, which a thread keeps from one to
// the next.
#pragma once

#include <cstdint>

namespace ridgeline {

// In huge pages where the system has them: small ones are scattered, and some would then share
// their places in a cache.
class PackedScratch {
 public:
  PackedScratch() = default;
  PackedScratch(const PackedScratch&) = delete;
  PackedScratch& operator=(const PackedScratch&) = delete;
  ~PackedScratch();

  // What was there before may be gone. Throws an out_of_memory error.
  float* at_least(int64_t floats);

 private:
  float* data_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace ridgeline
