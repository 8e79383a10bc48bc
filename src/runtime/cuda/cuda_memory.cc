#include "runtime/cuda/cuda_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace ridgeline {
namespace {

constexpr Bytes kLeastMargin{int64_t{512} << 20};
// The granularity in which the driver maps device memory. Requests are multiples of it, so that the
// sizes of ledger and driver agree; small blocks share a piece.
constexpr int64_t kPiece = int64_t{2} << 20;

cuda::DevicePointer address_of(void* data) {
  return reinterpret_cast<cuda::DevicePointer>(data);
}

}  // namespace

CudaMemoryFacts cuda_memory_facts() {
  size_t free = 0, total = 0;
  cuda::check(cuda::driver().cuMemGetInfo_v2(&free, &total), "asking for the GPU's memory");
  return {{static_cast<int64_t>(free)}, {static_cast<int64_t>(total)}};
}

Bytes default_cuda_budget() {
  const Bytes free = cuda_memory_facts().free;
  return std::max(free - std::max(kLeastMargin, Bytes{free.count / 64}), Bytes{0});
}

void* CudaMemory::acquire(Bytes bytes, std::string& reason) {
  queue_.require_no_capture("taking memory from the driver");
  queue_.make_current();
  queue_.before_wait();
  const int64_t whole =
      bytes.count < kPiece ? bytes.count : (bytes.count + kPiece - 1) / kPiece * kPiece;
  cuda::DevicePointer address = 0;
  const cuda::Result result = queue_.driver().cuMemAlloc_v2(&address, static_cast<size_t>(whole));
  if (result == cuda::kErrorOutOfMemory) {
    reason = fmt::format("the GPU has only {} free", to_string(cuda_memory_facts().free));
    return nullptr;
  }
  queue_.check(result, "taking memory from the driver");
  return reinterpret_cast<void*>(address);
}

void CudaMemory::give_back(void* data, Bytes) {
  if (queue_.capturing()) {
    deferred_.push_back(data);
    return;
  }
  if (!queue_.try_make_current()) return;
  queue_.before_wait();
  queue_.driver().cuMemFree_v2(address_of(data));
}

void CudaMemory::free_deferred() {
  for (void* data : std::exchange(deferred_, {})) queue_.driver().cuMemFree_v2(address_of(data));
}

CudaBuffer::CudaBuffer(CudaQueue& queue, Bytes bytes, const char* what) : bytes_(bytes) {
  queue.require_no_capture("taking memory from the driver");
  cuda::DevicePointer address = 0;
  queue.check(queue.driver().cuMemAlloc_v2(&address, static_cast<size_t>(bytes.count)), what);
  data_.reset(reinterpret_cast<void*>(address));
}

void CudaBuffer::Free::operator()(void* data) const {
  cuda::driver().cuMemFree_v2(address_of(data));
}

}  // namespace ridgeline
