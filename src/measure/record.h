// The record of a measured row: what ran where, its times, memory and errors, and its command.
//
//   Record record;
//   record.study = "attention";
//   record.workload = {{"batch_size", 8}, {"seq_len", 1024}, {"d_model", 64}, {"dtype", "fp32"}};
//   record.implementation = "naive";
//   record.device = "cpu";
//   record.series = measurement.series;
//   results_file.append(record);
#pragma once

#include <cstdint>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/json.h"
#include "base/units.h"
#include "measure/disturbance.h"
#include "measure/machine.h"
#include "measure/processor_speed.h"
#include "measure/protocol.h"
#include "measure/statistics.h"

namespace ridgeline {

inline constexpr int kSchemaVersion = 1;

enum class Status { ok, oom, unsupported, wrong, invalid, skipped };

std::string_view status_name(Status status);                // in records: "ok", "oom", ...
std::string_view status_csv_word(Status status);            // in CSV: "success", "OOM", ...
std::optional<Status> parse_status(std::string_view word);  // accepts both
// The status of a row that failed with this error; nullopt if the error ends the study.
std::optional<Status> status_of(const Error& error);

struct MemoryFacts {
  std::optional<Bytes> before_backward = {};  // live in the ledger after forward
  std::optional<Bytes> peak = {};             // of the ledger
  std::optional<Bytes> predicted_before_backward = {};
  std::optional<Bytes> predicted_peak = {};
  std::optional<Bytes>
      predicted_quadratic;  // the part of the predicted peak that grows with S squared
  // Independent of the ledger: the resident size by the kernel, the memory in use by the driver.
  std::optional<Bytes> process_peak_growth = {};
  std::optional<Bytes> driver_peak_growth = {};

  bool operator==(const MemoryFacts&) const = default;
};

struct TensorError {
  std::string name;
  double max_error = Statistics::kUnknown;
  double tolerance = Statistics::kUnknown;

  bool operator==(const TensorError&) const = default;
};

struct Verification {
  bool checked = false;
  std::string what;  // "whole tensors", "sampled rows"
  std::string oracle = "fp64";
  std::vector<TensorError> tensors;

  bool operator==(const Verification&) const = default;
};

struct PhaseCost {
  int64_t flops = 0;
  int64_t macs = 0;
  Bytes bytes = {};

  bool operator==(const PhaseCost&) const = default;
};

struct CostFacts {
  PhaseCost forward;
  PhaseCost backward;
  std::string convention;  // what was counted, and how

  bool operator==(const CostFacts&) const = default;
};

// The state of a GPU at one moment; values that its management library does not report stay empty.
struct DeviceState {
  std::optional<double> clock_mhz = {};  // of the multiprocessors
  std::optional<double> memory_clock_mhz = {};
  std::optional<bool> clocks_locked = {};
  std::optional<double> power_w = {};
  std::optional<double> temperature_c = {};
  std::string throttle_reasons = {};  // "sw_power_cap hw_slowdown", "none"; empty: unknown

  bool operator==(const DeviceState&) const = default;
};

struct BuildFacts {
  std::string version;
  std::string compiler;
  std::string build_type;
  std::string flags;
  std::string git_commit;

  bool operator==(const BuildFacts&) const = default;
};
BuildFacts version_and_compiler();  // of this library; the rest is known where a program is built

struct Record {
  // Defined in record.cc, so that users do not compile copies and destructors of all members.
  Record();
  Record(const Record& other);
  Record(Record&& other) noexcept;
  Record& operator=(const Record& other);
  Record& operator=(Record&& other) noexcept;
  ~Record();

  std::string study;
  std::string time;                // ISO 8601, UTC
  Json workload = Json::object();  // the study's own keys: batch_size, seq_len, ...
  std::string implementation;
  std::string device;
  Json settings = Json::object();  // what else identifies the row: threads, isa, seed, mode
  Status status = Status::ok;
  std::string error;
  std::vector<Series> series;
  ProtocolFacts protocol;
  MemoryFacts memory;
  Verification verification;
  std::optional<CostFacts> cost;
  std::optional<Json> metrics;                             // derived by the study: rates, shares
  std::optional<DeviceState> device_before, device_after;  // before and after the samples
  std::optional<ProcessorSpeed> speed_before = {}, speed_after = {};  // rows of the CPU only
  std::optional<Disturbance> disturbance = {};
  int run = 0;  // number of the run with --runs, from 1; 0: the only run
  // Number of runs merged into this record, whose samples are then their medians (runs_merged); 0:
  // the samples are those of one run. Not written to files.
  int merged_runs = 0;
  MachineFacts machine;
  BuildFacts build;
  std::string command;  // reproduces the row

  const Series* find_series(std::string_view name) const;  // null: not measured
  bool operator==(const Record& other) const;
};

// Stores the error and its status in the record; rethrows it with `place` if it ends the study.
void fail_row(Record& record, const Error& error, const std::string& place);

// Ends the error of a row that did not run because its predicted memory exceeds the budget.
inline constexpr std::string_view kNotTried = "; not tried";
// False for such a row.
bool was_tried(const Record& record);

// Identifies a row by study, implementation, device, workload and settings, in any key order.
std::string workload_key(const Record& record);

// "2026-01-31T12:34:56Z".
std::string utc_text(std::time_t time);
std::string utc_now();

}  // namespace ridgeline
