#include "runtime/host_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>

#include "base/machine_limits.h"

namespace ridgeline {
namespace {

constexpr Bytes kMargin{int64_t{256} << 20};
constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = int64_t{2} << 20;

}  // namespace

Bytes default_host_budget() {
  const Bytes available = machine_memory().available;
  const Bytes margin = std::max(kMargin + kMargin, Bytes{available.count / 16});
  return std::max(available - margin, Bytes{0});
}

void* HostMemory::acquire(Bytes bytes, std::string& reason) {
  // Small blocks are not checked, as the budget's margin covers them.
  if (bytes > kMargin) {
    const Bytes available = machine_memory().available;
    if (bytes + kMargin > available) {
      reason = fmt::format("this machine has only {} available", to_string(available));
      return nullptr;
    }
  }
  // Huge pages need an aligned start: maps more and unmaps both ends.
  const bool huge = bytes.count >= kHugePage;
  const auto length = static_cast<size_t>(bytes.count + kPage);
  const size_t slack = huge ? kHugePage : 0;
  void* mapped =
      mmap(nullptr, length + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) {
    reason = "the operating system refused to map it";
    return nullptr;
  }
  char* begin = static_cast<char*>(mapped);
  if (!huge) return begin + next_shift();
  const auto address = reinterpret_cast<uintptr_t>(begin);
  const size_t head = (kHugePage - address % kHugePage) % kHugePage;
  if (head > 0) munmap(begin, head);
  if (slack > head) munmap(begin + head + length, slack - head);
  madvise(begin + head, length, MADV_HUGEPAGE);
  return begin + head + next_shift();
}

void HostMemory::give_back(void* data, Bytes bytes) {
  char* begin = static_cast<char*>(data);
  begin -= reinterpret_cast<uintptr_t>(data) % kPage;
  munmap(begin, static_cast<size_t>(bytes.count + kPage));
}

// Returns a different offset within a page for each block, at the cost of at most a page. Otherwise
// loads and stores of different tensors at equal page offsets would alias (4K aliasing).
int64_t HostMemory::next_shift() {
  constexpr int64_t kStep = 320;  // whole cache lines; repeats only after many blocks
  return shift_ = (shift_ + kStep) % kPage;
}

}  // namespace ridgeline
