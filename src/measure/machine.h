// Facts about this machine that every record holds; none of them identify its owner.
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
  int logical_cores = 0;                  // that this process may run on
  std::optional<double> cpu_quota_cores;  // the container's quota, if any
  std::vector<std::string> isa;           // extensions that kernels use: avx2, avx512f, amx_bf16
  std::vector<Cache> caches;              // of the first core
  Bytes memory_total;                     // of the machine, or the container's limit if less
  Bytes memory_available;
  std::string kernel;
  std::string os;
  std::optional<double> max_clock_mhz;
  std::string max_clock_source;  // "cpufreq", or "cpuinfo" where virtual machines hide the former
  std::optional<double> measured_clock_mhz;  // clock_rate.h
  std::optional<std::string> governor;
  std::optional<double> load_average;  // of the last minute
  std::string fingerprint;
  std::optional<GpuFacts> gpu = {};  // the GPU that ran the row; empty for rows of the CPU

  bool operator==(const MachineFacts&) const = default;
};

// Takes a few milliseconds. Reads /proc and /sys under `root` ("/" except in tests); facts that are
// missing there stay empty.
MachineFacts collect_machine_facts(const std::filesystem::path& root = "/");

// Equal for machines whose times may be compared: a hash of the processor (model, cores, quota,
// instruction sets, caches), the memory in GiB, and the GPU that ran (model, architecture,
// multiprocessors), but not of the kernel, software, clocks and load.
std::string fingerprint(const MachineFacts& facts);

}  // namespace ridgeline
