#include "measure/machine.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>
#include <thread>

#include "base/machine_limits.h"
#include "base/processors.h"
#include "measure/clock_rate.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kIsaOfInterest[] = {"sse4_2",      "avx2",        "fma",
                                               "f16c",        "avx512f",     "avx512bw",
                                               "avx512_bf16", "avx512_fp16", "amx_bf16"};

std::optional<std::string> first_line(const fs::path& path) {
  std::ifstream file(path);
  std::string line;
  if (std::getline(file, line) && !line.empty()) return line;
  return std::nullopt;
}

std::optional<double> first_number(const fs::path& path) {
  std::ifstream file(path);
  double value = 0;
  if (file >> value) return value;
  return std::nullopt;
}

std::string trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t\"");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\"") - first + 1));
}

// Calls `use(key, value)` for each line "key <separator> value".
template <class Use>
void for_each_pair(const fs::path& path, char separator, Use use) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const size_t at = line.find(separator);
    if (at == std::string::npos) continue;
    use(trimmed(std::string_view(line).substr(0, at)),
        trimmed(std::string_view(line).substr(at + 1)));
  }
}

std::vector<std::string> isa_of_interest(const std::string& flags) {
  std::istringstream words(flags);
  const std::vector<std::string> present{std::istream_iterator<std::string>(words), {}};
  std::vector<std::string> found;
  for (const std::string_view name : kIsaOfInterest)
    if (std::find(present.begin(), present.end(), name) != present.end()) found.emplace_back(name);
  return found;
}

void read_cpuinfo(const fs::path& root, MachineFacts& facts) {
  double highest_mhz = 0;
  for_each_pair(root / "proc/cpuinfo", ':', [&](const std::string& key, const std::string& value) {
    if (key == "model name" && facts.cpu_model.empty()) facts.cpu_model = value;
    if (key == "flags" && facts.isa.empty()) facts.isa = isa_of_interest(value);
    if (key == "cpu MHz") highest_mhz = std::max(highest_mhz, std::strtod(value.c_str(), nullptr));
  });
  if (facts.cpu_model.empty()) facts.cpu_model = "unknown";

  const fs::path cpufreq = root / "sys/devices/system/cpu/cpu0/cpufreq";
  facts.governor = first_line(cpufreq / "scaling_governor");
  if (const auto khz = first_number(cpufreq / "cpuinfo_max_freq")) {
    facts.max_clock_mhz = *khz / 1000;
    facts.max_clock_source = "cpufreq";
  } else if (highest_mhz > 0) {
    facts.max_clock_mhz = highest_mhz;
    facts.max_clock_source = "cpuinfo";
  }
}

std::vector<Cache> read_caches(const fs::path& root) {
  std::vector<Cache> caches;
  for (int index = 0;; ++index) {
    const fs::path cache = root / fmt::format("sys/devices/system/cpu/cpu0/cache/index{}", index);
    const auto level = first_number(cache / "level");
    const auto size_kib = first_number(cache / "size");  // "48K"
    if (!level || !size_kib) return caches;
    caches.push_back({static_cast<int>(*level), first_line(cache / "type").value_or("unknown"),
                      Bytes{static_cast<int64_t>(*size_kib) * 1024}});
  }
}

int usable_cores() {
  const size_t allowed = allowed_processors().size();
  return static_cast<int>(allowed > 0 ? allowed : std::thread::hardware_concurrency());
}

std::string os_name(const fs::path& root) {
  std::string name = "unknown";
  for_each_pair(root / "etc/os-release", '=',
                [&](const std::string& key, const std::string& value) {
                  if (key == "PRETTY_NAME") name = value;
                });
  return name;
}

// FNV-1a: stable across builds and machines, unlike std::hash.
uint64_t hash(std::string_view text) {
  uint64_t state = 0xcbf29ce484222325u;
  for (const char c : text) state = (state ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return state;
}

}  // namespace

MachineFacts collect_machine_facts(const fs::path& root) {
  MachineFacts facts;
  read_cpuinfo(root, facts);
  facts.logical_cores = usable_cores();
  facts.cpu_quota_cores = read_cgroup_limits(root).cpu_cores;
  facts.caches = read_caches(root);
  const MachineMemory memory = machine_memory(root);
  facts.memory_total = memory.total;
  facts.memory_available = memory.available;
  facts.kernel = first_line(root / "proc/sys/kernel/osrelease").value_or("unknown");
  facts.os = os_name(root);
  facts.measured_clock_mhz = std::round(measure_clock_mhz());
  facts.load_average = first_number(root / "proc/loadavg");
  facts.fingerprint = fingerprint(facts);
  return facts;
}

std::string fingerprint(const MachineFacts& facts) {
  std::string text =
      fmt::format("{}|{} cores|quota {}|{}|{:.0f} GiB", facts.cpu_model, facts.logical_cores,
                  facts.cpu_quota_cores.value_or(0), fmt::join(facts.isa, ","),
                  std::round(facts.memory_total.mebibytes() / 1024));
  for (const Cache& cache : facts.caches)
    text += fmt::format("|L{} {} {}", cache.level, cache.type, cache.size.count);
  if (facts.gpu)
    text +=
        fmt::format("|{} {} x {}", facts.gpu->model, facts.gpu->arch, facts.gpu->multiprocessors);
  return fmt::format("{:016x}", hash(text));
}

}  // namespace ridgeline
