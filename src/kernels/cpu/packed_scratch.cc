#include "kernels/cpu/packed_scratch.h"

#include <sys/mman.h>

#include <cstdlib>

#include "base/error.h"

namespace ridgeline {

PackedScratch::~PackedScratch() {
  std::free(data_);
}

float* PackedScratch::at_least(int64_t floats) {
  if (floats <= count_) return data_;
  std::free(data_);
  count_ = 0;
  constexpr size_t kPage = size_t{2} << 20;
  const size_t bytes = (static_cast<size_t>(floats) * sizeof(float) + kPage - 1) / kPage * kPage;
  data_ = static_cast<float*>(std::aligned_alloc(kPage, bytes));
  if (data_ == nullptr)
    throw Error(ErrorKind::out_of_memory,
                "no memory for the packed operands of a product or of attention");
  madvise(data_, bytes, MADV_HUGEPAGE);
  count_ = static_cast<int64_t>(bytes / sizeof(float));
  return data_;
}

}  // namespace ridgeline
