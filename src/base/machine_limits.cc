#include "base/machine_limits.h"

#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "base/processors.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

// The files of each cgroup version. A line of /proc/self/cgroup reads "id:controllers:path";
// version 2 names no controllers.
struct MemoryFiles {
  const char* controller;
  const char* mount;
  const char* limit;
  const char* usage;
  const char* reclaimable;  // key in memory.stat: page cache that the kernel drops under pressure
};

constexpr MemoryFiles kMemoryFiles[] = {
    {"", "sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"},
    {"", "sys/fs/cgroup/unified", "memory.max", "memory.current", "inactive_file"},
    {"memory", "sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
     "total_inactive_file"},
};

struct CpuFiles {
  const char* controller;
  const char* mount;
  const char* quota;
  const char* period;  // null: the quota file holds both
};

constexpr CpuFiles kCpuFiles[] = {
    {"", "sys/fs/cgroup", "cpu.max", nullptr},
    {"cpu", "sys/fs/cgroup/cpu", "cpu.cfs_quota_us", "cpu.cfs_period_us"},
};

template <class Number>
std::optional<Number> first_number(const fs::path& path) {
  std::ifstream file(path);
  Number value{};
  if (file >> value) return value;
  return std::nullopt;
}

int64_t stat_value(const fs::path& path, const std::string& key) {
  std::ifstream file(path);
  int64_t value = 0;
  for (std::string name; file >> name >> value;)
    if (name == key) return value;
  return 0;
}

bool names_controller(const std::string& list, const std::string& wanted) {
  if (wanted.empty()) return list.empty();
  std::istringstream names(list);
  for (std::string name; std::getline(names, name, ',');)
    if (name == wanted) return true;
  return false;
}

// The directories from the process's own group up to the mount point; only the mount point for a
// group outside of the visible tree (a container without its own namespace).
std::vector<fs::path> group_directories(const fs::path& root, const std::string& controller,
                                        const fs::path& mount) {
  std::vector<fs::path> directories;
  std::ifstream groups(root / "proc/self/cgroup");
  for (std::string id, list, path; std::getline(groups, id, ':') &&
                                   std::getline(groups, list, ':') && std::getline(groups, path);) {
    if (!names_controller(list, controller)) continue;
    const bool visible = path.find("..") == std::string::npos;
    for (fs::path at = visible ? fs::path(path) : fs::path(); at.has_relative_path();
         at = at.parent_path())
      directories.push_back(root / mount / at.relative_path());
    directories.push_back(root / mount);
  }
  return directories;
}

template <class T>
void tighten(std::optional<T>& limit, T candidate) {
  limit = limit ? std::min(*limit, candidate) : candidate;
}

void read_memory(const fs::path& root, const MemoryFiles& files, CgroupLimits& limits) {
  constexpr int64_t kNoLimit = int64_t{1} << 60;  // version 1 writes "no limit" as a huge number
  for (const fs::path& group : group_directories(root, files.controller, files.mount)) {
    const auto limit = first_number<int64_t>(group / files.limit);
    if (!limit || *limit >= kNoLimit) continue;
    tighten(limits.memory, Bytes{*limit});
    const int64_t used = first_number<int64_t>(group / files.usage).value_or(0) -
                         stat_value(group / "memory.stat", files.reclaimable);
    tighten(limits.memory_left, Bytes{std::max<int64_t>(0, *limit - std::max<int64_t>(0, used))});
  }
}

void read_cpu(const fs::path& root, const CpuFiles& files, CgroupLimits& limits) {
  for (const fs::path& group : group_directories(root, files.controller, files.mount)) {
    std::ifstream file(group / files.quota);
    double quota_us = 0, period_us = 0;
    if (!(file >> quota_us) || quota_us <= 0) continue;  // no limit: "max" or -1
    if (files.period)
      period_us = first_number<double>(group / files.period).value_or(0);
    else
      file >> period_us;
    if (period_us > 0) tighten(limits.cpu_cores, quota_us / period_us);
  }
}

}  // namespace

CgroupLimits read_cgroup_limits(const fs::path& root) {
  CgroupLimits limits;
  for (const MemoryFiles& files : kMemoryFiles) read_memory(root, files, limits);
  for (const CpuFiles& files : kCpuFiles) read_cpu(root, files, limits);
  return limits;
}

MachineMemory machine_memory(const fs::path& root) {
  MachineMemory memory;
  std::ifstream file(root / "proc/meminfo");
  std::string key, unit;
  for (int64_t kibibytes = 0; file >> key >> kibibytes && std::getline(file, unit);) {
    if (key == "MemTotal:") memory.total = {kibibytes * 1024};
    if (key == "MemAvailable:") memory.available = {kibibytes * 1024};
  }
  const CgroupLimits limits = read_cgroup_limits(root);
  memory.total = std::min(memory.total, limits.memory.value_or(memory.total));
  memory.available = std::min(memory.available, limits.memory_left.value_or(memory.available));
  return memory;
}

int available_threads() {
  const int cores = std::max(1, static_cast<int>(allowed_processors().size()));
  const double quota = read_cgroup_limits().cpu_cores.value_or(cores);
  return std::max(1, std::min(cores, static_cast<int>(quota)));
}

}  // namespace ridgeline
