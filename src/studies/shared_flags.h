// Flags that studies share: which device, how often, where results go.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/file_io.h"
#include "base/json.h"
#include "base/units.h"
#include "measure/protocol.h"
#include "measure/record.h"
#include "report/terminal/table.h"
#include "runtime/device.h"
#include "studies/flags.h"

namespace ridgeline {

// Of --time-budget and --memory-budget. Throws a usage error, for nothing as well.
double parse_time_budget(const std::string& text);
Bytes parse_memory_budget(const std::string& text);
// What the help of --time-budget ends with; `amount` says of what it is one.
std::string time_budget_help(std::string_view amount);

struct DeviceFlags {
  std::string device = "auto";
  int threads = 0;  // 0: all that are available
  std::string memory_budget = {};
  std::string tune = "off";
  bool deterministic = false;
  std::string dump_kernels = {};
};
void add_device_flags(Flags& flags, DeviceFlags* device);
// Written so that they can be pasted: " --device cpu --threads 2 --memory-budget 4294967296B".
std::string to_command(const DeviceFlags& flags, const Device& device);
// For a child that is to have the same device and the same budget: all that were given.
Words words_for_child(DeviceFlags flags, const Device& device);
// What tells rows apart and the device itself does not know.
Json settings_of(const DeviceFlags& flags, const Device& device);

struct ProtocolFlags {
  int warmups = 10;
  int iterations = 100;
  std::string time_budget = {};  // a default gives way to a number of samples that was asked for
  bool gave_iterations = false, gave_budget = false;
};
// -w, -r and --time-budget; --warmup-steps and --measure-steps are older names.
void add_protocol_flags(Flags& flags, ProtocolFlags* protocol);
Protocol make_protocol(const ProtocolFlags& flags);
std::string to_command(const Protocol& protocol);  // " --num-warmup 10 --num-iterations 100"

// Where results go besides the results folder; empty: nowhere.
struct OutputFlags {
  std::string table = {};  // CSV, Markdown or JSON lines by its ending
  std::string json = {};   // the records as one array
};
void add_output_flags(Flags& flags, OutputFlags* output);
// Writes them; `table` is the study's own.
void write_output(const OutputFlags& output, const std::vector<Record>& records,
                  const Table& table);

// Throws a usage error for a further file that has an unknown ending or cannot be written. Gives
// what keeps pipes open until they are written.
[[nodiscard]] std::vector<FileDescriptor> check_output(const OutputFlags& output);

struct SharedFlags {
  DeviceFlags device = {};
  ProtocolFlags protocol = {};
  uint64_t seed = 42;
  bool no_verify = false;
  OutputFlags output = {};
  std::string results_dir = "results";
  bool resume = false;
  int runs = 1;
  bool dry_run = false;
  bool list = false;
  std::string save_baseline = {};  // a name; empty: none is saved
};

void add_results_dir(Flags& flags, std::string* results_dir, const std::string& help);
void add_save_baseline(Flags& flags, std::string* name);
void add_runs(Flags& flags, int* runs);  // beside --resume, which it excludes

// What sweeps over rows have beyond device and protocol.
struct SweepFlagHelp {
  std::string list;                                               // what --list shows
  std::string no_verify = "do not compare with the fp64 oracle";  // empty: there is no such flag
};
void add_sweep_flags(Flags& flags, SharedFlags* shared, const SweepFlagHelp& help);

}  // namespace ridgeline
