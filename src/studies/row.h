// The skeleton of a row, the same in all studies: describe, try, verify, measure, fail.
//
//   Record described = describe_row({.study = "gemm", ...}, options, device, blank);
//   return try_row(described, label(workload), [&](Record& record) {
//     take_verification(record, problem.verify(seed));
//     sample_row(record, device, options, {"forward"},
//                [&](std::span<double> phase_ms) { phase_ms[0] = device.time_ms(run); });
//   });
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/protocol.h"
#include "measure/record.h"
#include "measure/speed_of_light.h"
#include "report/terminal/progress.h"
#include "runtime/device.h"

namespace ridgeline {

// What the rows of all studies have in common.
struct RowOptions {
  Protocol protocol = {};
  uint64_t seed = 42;
  bool verify = true;
  Json settings = Json::object();  // what else identifies a row, such as how kernels were tuned
  std::function<bool()> interrupted = {};  // polled between samples
  StageHook stage = {};                    // called with what a row does next

  void begin(const std::string& what) const {
    if (stage) stage(what);
  }
};

// With seed and settings, what distinguishes a row from all others: the key of --resume.
struct RowIdentity {
  std::string_view study;
  std::string_view implementation;
  Json workload;
};

// Returns a row without results. `blank` holds the facts that all rows share (machine, build).
Record describe_row(const RowIdentity& identity, const RowOptions& options, const Device& device,
                    const Record& blank);

// Sets the status of a row that ended in an error; throws errors that end the study.
using FailRow = void (*)(Record& record, const Error& error, const std::string& label);

// Fills in the results of a row by `body`, unless its description says that it cannot run. Returns
// nullopt if the run was interrupted.
std::optional<Record> try_row(Record described, const std::string& label,
                              const std::function<void(Record&)>& body, FailRow fail = fail_row);

// Throws out_of_memory if the predicted peak is above the budget.
void expect_within_budget(Bytes predicted, const Device& device);

// Describes the first tensor whose error is above its tolerance; empty: there is none.
std::string first_wrong_tensor(const Verification& verification);
// Stores the verification; a wrong tensor makes the row wrong.
void take_verification(Record& record, Verification verification);
void judge_verification(Record& record);  // the same for the stored one

// Makes an ok row invalid if it is faster than the peaks allow; `phase` leads the reason, if given.
void mark_if_faster_than_light(Record& record, std::string_view phase, const Achieved& achieved,
                               const Peaks& peaks);

// Adds the series of one measurement, and the state of the device or the speed of the processors
// before and after it. Throws Interrupted.
void sample_row(Record& record, Device& device, const RowOptions& options,
                const std::vector<std::string>& series, const TimedIteration& sample);

}  // namespace ridgeline
