// Memory for packed operands and tiles of products and attention, which a thread reuses.
#pragma once

#include <cstdint>

namespace ridgeline {

// In huge pages if the system has them: small pages are scattered, and some would then map to the
// same cache sets.
class PackedScratch {
 public:
  PackedScratch() = default;
  PackedScratch(const PackedScratch&) = delete;
  PackedScratch& operator=(const PackedScratch&) = delete;
  ~PackedScratch();

  // Discards the contents if it must grow. Throws an out_of_memory error.
  float* at_least(int64_t floats);

 private:
  float* data_ = nullptr;
  int64_t count_ = 0;
};

}  // namespace ridgeline
