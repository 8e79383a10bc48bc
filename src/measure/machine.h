// Facts about this machine that stand beside every figure; nothing that names its owner.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"

namespace ridgeline {

struct Cache {
  int level = 0;
  std::string type;  // "Data", "Instruction", "Unified"
  Bytes size;

  bool operator==(const Cache&) const = default;
};

struct GpuFacts {
  std::string model = {};  // "NVIDIA H200"
  std::string arch = {};   // "sm_90a"
  int multiprocessors = 0;
  Bytes l2 = {};
  double max_clock_mhz = 0;
  std::string software = {};  // driver, compiler and libraries with their versions

  bool operator==(const GpuFacts&) const = default;
};

struct MachineFacts {
  std::string cpu_model;
  int logical_cores = 0;                  // those this process may run on
  std::optional<double> cpu_quota_cores;  // a container's share, where it has one
  std::vector<std::string> isa;           // of interest to kernels: avx2, avx512f, amx_bf16, ...
  std::vector<Cache> caches;              // of the first core
  Bytes memory_total;                     // the machine's, or the container's if that is less
  Bytes memory_available;
  std::string kernel;
  std::string os;
  std::optional<double> max_clock_mhz;
  std::string max_clock_source;  // "cpufreq", or "cpuinfo" where virtual machines hide it
  std::optional<double> measured_clock_mhz;  // a timed chain of dependent additions
  std::optional<std::string> governor;
  std::optional<double> load_average;  // of the last minute
  std::string fingerprint;
  std::optional<GpuFacts> gpu = {};  // the one that ran; empty for figures of the CPU

  bool operator==(const MachineFacts&) const = default;
};

// Takes a few milliseconds. Reads /proc and /sys below `root` ("/" but for tests); what is missing
// there stays empty.
MachineFacts collect_machine_facts(const std::filesystem::path& root = "/");

// Equal for machines whose figures may be compared: a hash over the processor (model, cores, quota,
// instruction sets, caches), the memory in GiB, and the GPU that ran (model, multiprocessors). The
// kernel, software, clocks and load are left out.
std::string fingerprint(const MachineFacts& facts);

}  // namespace ridgeline
