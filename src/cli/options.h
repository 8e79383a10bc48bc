// Flags that several commands share, and how they are read.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"
#include "measure/protocol.h"
#include "report/terminal/progress.h"
#include "runtime/device.h"

namespace ridgeline {

// Of --time-budget and --memory-budget. Throws a usage error, for nothing as well.
double parse_time_budget(const std::string& text);
// What the help of --time-budget ends with; `amount` says of what it is one.
std::string time_budget_help(std::string_view amount);
Bytes parse_memory_budget(const std::string& text);

struct DeviceFlags {
  std::string device = "auto";
  int threads = 0;  // 0: all that are available
  std::string memory_budget;
  std::string tune = "off";
  bool deterministic = false;
  std::string dump_kernels;
};

// "auto", "cpu", "cuda", "cuda:1".
struct DeviceChoice {
  enum class Kind { automatic, cpu, cuda } kind = Kind::automatic;
  int ordinal = 0;
};
DeviceChoice parse_device(const std::string& text);  // throws a usage error

void add_device_flags(CLI::App& app, DeviceFlags& flags);
// The flags written so that they can be pasted: " --device cpu --threads 2 --memory-budget
// 4294967296".
std::string to_command(const DeviceFlags& flags, const Device& device);
std::vector<std::string> to_words(const DeviceFlags& flags);  // for a child: all that were given
// "auto" is a GPU that can be driven, else the CPU; one line on stderr says why a GPU whose driver
// is there was passed over. Throws an unsupported error for a device that cannot be driven.
// `stage` is told how many kernels are compiled of how many, whenever there are some to compile.
std::unique_ptr<Device> open_device(const DeviceFlags& flags, const StageHook& stage = {});

struct ProtocolFlags {
  int warmups = 10;
  int iterations = 100;
  std::string time_budget = {};  // a default gives way to a number of samples that was asked for
  CLI::Option *given_iterations = nullptr, *given_budget = nullptr;  // by add_protocol_flags
};

// -w, -r and --time-budget; --warmup-steps and --measure-steps are older names.
void add_protocol_flags(CLI::App& app, ProtocolFlags& flags);
Protocol make_protocol(const ProtocolFlags& flags);
std::string to_command(const Protocol& protocol);  // " --num-warmup 10 --num-iterations 100"

// Where results go besides the results folder; empty: nowhere.
struct OutputFlags {
  std::string table;  // CSV, Markdown or JSON lines by its ending
  std::string json;   // the records as one array
};
void add_output_flags(CLI::App& app, OutputFlags& flags);

// Flags that every study has.
struct StudyFlags {
  uint64_t seed = 42;
  bool resume = false;
  int runs = 1;
  bool dry_run = false;
  bool list = false;
  bool no_verify = false;
  OutputFlags output = {};
  std::string results_dir = "results";
  std::string save_baseline;  // a name; empty: none is saved
};

void add_save_baseline(CLI::App& app, std::string& name);
void add_runs(CLI::App& app, int& runs);  // after --resume, which it excludes
// `list` says what --list shows.
void add_study_flags(CLI::App& app, StudyFlags& flags, const std::string& list);

// Refuses what is none of the names, and says which may have been meant.
CLI::Validator one_of(std::vector<std::string> names);

// A list given as `--flag 1 2` or `--flag 1,2`, every entry at least 1.
CLI::Option* add_sizes(CLI::App& app, const std::string& flag, std::vector<int64_t>& sizes,
                       const std::string& description);

// Flags of a problem of attention, each with one meaning in all commands that have it.
CLI::Option* add_head_dims(CLI::App& app, std::vector<int64_t>& head_dims);  // and --d-model
CLI::Option* add_implementations(CLI::App& app, std::vector<std::string>& names,
                                 const std::string& description);
CLI::Option* add_dtypes(CLI::App& app, std::vector<std::string>& dtypes);
void add_causal(CLI::App& app, bool& causal);

// --backward: the gradient is measured, by the algorithms that follow it; none: the device's own.
struct BackwardFlags {
  bool asked = false;
  std::vector<std::string> algorithms = {};
};
void add_backward(CLI::App& app, BackwardFlags& flags);

}  // namespace ridgeline
