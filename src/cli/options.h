// Flags that several commands share, and how they are read.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "measure/protocol.h"
#include "measure/record.h"
#include "runtime/cpu_device.h"

namespace ridgeline {

struct DeviceFlags {
  std::string device = "auto";
  int threads = 0;  // 0: all that are available
  std::string memory_budget;
};

void add_device_flags(CLI::App& app, DeviceFlags& flags);
// Throws an unsupported error for a device this build cannot drive.
std::unique_ptr<CpuDevice> open_device(const DeviceFlags& flags);

struct ProtocolFlags {
  int warmups = 10;
  int iterations = 100;
  std::string time_budget;
};

void add_protocol_flags(CLI::App& app, ProtocolFlags& flags);
Protocol make_protocol(const ProtocolFlags& flags);

// A list given as `--flag 1 2` or `--flag 1,2`, every entry at least 1.
CLI::Option* add_sizes(CLI::App& app, const std::string& flag, std::vector<int64_t>& sizes,
                       const std::string& description);

// What every record of this process carries: machine, build.
Record blank_record();

// True once Ctrl-C was pressed; a second one ends the process at once.
bool interrupted();
void watch_for_interrupts();

inline constexpr int kInterruptedExit = 130;

}  // namespace ridgeline
