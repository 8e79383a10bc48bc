// The skeleton of a row, the same in all studies: describe, try, verify, measure, fail.
//
//   Record described = describe_row({.study = "gemm", ...}, device, blank);
//   return try_row(described, label(workload), [&](Record& record) {
//     take_verification(record, problem.verify(seed));
//     sample_row(record, device, {protocol, interrupted}, {"forward"},
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
#include "runtime/device.h"

namespace ridgeline {

// What tells a row from all others: the key of --resume.
struct RowIdentity {
  std::string_view study;
  std::string_view implementation;
  Json workload;
  uint64_t seed = 42;
  Json settings = Json::object();  // beside those of the device
};

// A row without results. `blank` brings the facts that all rows share (machine, build).
Record describe_row(const RowIdentity& identity, const Device& device, const Record& blank);

// What becomes of a row that ended in an error; throws what is no result of a row.
using FailRow = void (*)(Record& record, const Error& error, const std::string& label);

// Fills in the results of a row by `body`, unless it was described as one that cannot run. Empty:
// interrupted.
std::optional<Record> try_row(Record described, const std::string& label,
                              const std::function<void(Record&)>& body, FailRow fail = fail_row);

// Throws out_of_memory for a predicted peak above the budget, which is not tried.
void expect_within_budget(Bytes predicted, const Device& device);

// The first tensor whose error is above its tolerance, in words; empty: all are right.
std::string first_wrong_tensor(const Verification& verification);
// A row whose verification has a wrong tensor is wrong.
void take_verification(Record& record, Verification verification);
void judge_verification(Record& record);  // of one that it has already

struct Sampling {
  Protocol protocol;
  std::function<bool()> interrupted = {};  // asked between samples
};
// Adds the series that the protocol takes, and the state of the device or the speed of the
// processors before and after. Throws Interrupted.
void sample_row(Record& record, Device& device, const Sampling& how,
                const std::vector<std::string>& series, const TimedIteration& sample);

}  // namespace ridgeline
