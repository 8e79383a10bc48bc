#include "runtime/host_memory.h"

#include <fmt/format.h>
#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <optional>

namespace ridgeline {
namespace {

constexpr Bytes kMargin{int64_t{256} << 20};
constexpr int64_t kPage = 4096;
constexpr int64_t kHugePage = int64_t{2} << 20;

std::optional<int64_t> read_number(const char* path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (file >> value) return value;
  return std::nullopt;  // missing, or "max"
}

int64_t machine_available() {
  std::ifstream file("/proc/meminfo");
  std::string key;
  int64_t kibibytes = 0;
  std::string unit;
  while (file >> key >> kibibytes >> unit)
    if (key == "MemAvailable:") return kibibytes * 1024;
  return INT64_MAX;
}

struct GroupFiles {
  const char* limit;
  const char* usage;
};

// Version 2 and version 1 of Linux control groups.
constexpr GroupFiles kGroups[] = {
    {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
    {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"}};

}  // namespace

Bytes available_host_memory() {
  int64_t available = machine_available();
  for (const GroupFiles& group : kGroups) {
    const auto limit = read_number(group.limit);
    const auto usage = read_number(group.usage);
    if (limit && usage) available = std::min(available, *limit - *usage);
  }
  return {std::max<int64_t>(available, 0)};
}

Bytes default_host_budget() {
  const Bytes available = available_host_memory();
  const Bytes margin = std::max(kMargin + kMargin, Bytes{available.count / 16});
  return std::max(available - margin, Bytes{0});
}

void* HostMemory::acquire(Bytes bytes, std::string& reason) {
  // Small pieces are not worth a look at the machine; the budget's margin covers them.
  if (bytes > kMargin) {
    const Bytes available = available_host_memory();
    if (bytes + kMargin > available) {
      reason = fmt::format("this machine has only {} available", to_string(available));
      return nullptr;
    }
  }
  // Huge pages need an aligned start: map more and cut both ends off.
  const bool huge = bytes.count >= kHugePage;
  const auto length = static_cast<size_t>(bytes.count + kPage);
  const size_t slack = huge ? kHugePage : 0;
  void* mapped = mmap(nullptr, length + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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

// Tensors that all begin at the same place of a page make the processor take a load from one for a
// load of what was just stored to another. A different start for each costs at most a page.
int64_t HostMemory::next_shift() {
  constexpr int64_t kStep = 320;  // cache lines apart, and far from repeating within a page
  return shift_ = (shift_ + kStep) % kPage;
}

}  // namespace ridgeline
