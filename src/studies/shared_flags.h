// Flags that studies share: device, protocol, and where results go.
#pragma once

#include <optional>
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

// Parse --time-budget (to seconds) and --memory-budget. A budget of 0 is a usage error, too.
double parse_time_budget(const std::string& text);
Bytes parse_memory_budget(const std::string& text);
// The help of --time-budget; `amount` says what the budget is for.
std::string time_budget_help(std::string_view amount);

struct DeviceFlags {
  std::string device = "auto";
  int threads = 0;  // 0: all available
  std::string memory_budget = {};
  std::string tune = "off";
  bool deterministic = false;
  std::string dump_kernels = {};
};
void add_device_flags(Flags& flags, DeviceFlags* device);
// The flags, ready to paste: " --device cpu --threads 2 --memory-budget 4294967296B". `threads`
// replaces those of a CPU.
std::string to_command(const DeviceFlags& flags, const Device& device,
                       std::optional<int> threads = {});
// The flags that give a child process the same device and the same budget.
Words words_for_child(DeviceFlags flags, const Device& device);
// Settings that distinguish rows and that the device itself does not know.
Json settings_of(const DeviceFlags& flags, const Device& device);

struct ProtocolFlags {
  int warmups = 10;
  int iterations = 100;
  std::string time_budget = {};  // an explicit --num-iterations replaces a default budget
  bool gave_iterations = false, gave_budget = false;
};
// -w, -r and --time-budget; --warmup-steps and --measure-steps are older names.
void add_protocol_flags(Flags& flags, ProtocolFlags* protocol);
Protocol make_protocol(const ProtocolFlags& flags);
std::string to_command(const Protocol& protocol);  // " --num-warmup 10 --num-iterations 100"

// Files that are written in addition to the results folder; empty: none.
struct OutputFlags {
  std::string table = {};  // CSV, Markdown or JSON lines, by its extension
  std::string json = {};   // the records as one array
};
void add_output_flags(Flags& flags, OutputFlags* output);
// `table` is the study's own.
void write_output(const OutputFlags& output, const std::vector<Record>& records,
                  const Table& table);

// Throws a usage error for a file that has an unknown extension or cannot be written. Returns
// descriptors that keep pipes open until they are written.
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
  std::string save_baseline = {};  // its name; empty: none is saved
};

void add_results_dir(Flags& flags, std::string* results_dir, const std::string& help);
void add_save_baseline(Flags& flags, std::string* name);
void add_runs(Flags& flags, int* runs);  // excludes --resume, which must be declared

// The help of flags that sweeps have beyond device and protocol.
struct SweepFlagHelp {
  std::string list;                                               // what --list shows
  std::string no_verify = "do not compare with the fp64 oracle";  // empty: no such flag
};
void add_sweep_flags(Flags& flags, SharedFlags* shared, const SweepFlagHelp& help);

}  // namespace ridgeline
