// Flags that several commands share, and how they are read.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "measure/protocol.h"
#include "runtime/cpu_device.h"

namespace ridgeline {

struct DeviceFlags {
  std::string device = "auto";
  int threads = 0;  // 0: all that are available
  std::string memory_budget;
};

void add_device_flags(CLI::App& app, DeviceFlags& flags);
// The flags written so that they can be pasted: " --device cpu --threads 2 --memory-budget
// 4294967296".
std::string to_command(const DeviceFlags& flags, const CpuDevice& device);
// Throws an unsupported error for a device this build cannot drive.
std::unique_ptr<CpuDevice> open_device(const DeviceFlags& flags);

struct ProtocolFlags {
  int warmups = 10;
  int iterations = 100;
  std::string time_budget;
};

void add_protocol_flags(CLI::App& app, ProtocolFlags& flags);
Protocol make_protocol(const ProtocolFlags& flags);
std::string to_command(const Protocol& protocol);  // " --num-warmup 10 --num-iterations 100"

// A list given as `--flag 1 2` or `--flag 1,2`, every entry at least 1.
CLI::Option* add_sizes(CLI::App& app, const std::string& flag, std::vector<int64_t>& sizes,
                       const std::string& description);

}  // namespace ridgeline
