// Finds the out-of-memory frontier of attention: the longest sequence that fits, predicted by the
// memory model and confirmed by a few probes.
//
//   Record record = find_frontier(workload, device, {.probe = in_a_child}, described).value();
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "measure/record.h"
#include "runtime/device.h"
#include "studies/attention/workload.h"
#include "studies/choices.h"
#include "studies/row.h"

namespace ridgeline {

enum class ProbeMethod {
  run,       // runs forward and backward once
  allocate,  // only allocates and writes every tensor, in the order of the schedule
};
struct ProbeMethodInfo {
  ProbeMethod method;
  std::string_view name;
};
extern const Choices<ProbeMethodInfo> kProbeMethods;

struct ProbeResult {
  enum class Outcome { fits, out_of_memory, failed } outcome = Outcome::failed;
  std::string detail = {};  // why it does not fit, or failed
  std::optional<Bytes> peak = {};
  double seconds = 0;
};

// Tries one length, usually in a child process. Returns nullopt if interrupted.
using FrontierProber =
    std::function<std::optional<ProbeResult>(const AttentionWorkload&, ProbeMethod)>;

struct FrontierOptions {
  RowOptions row = {};
  FrontierProber probe = {};
  int64_t step = 128;  // lengths are multiples of it
  int64_t max_seq_len = int64_t{1} << 24;
  int max_probes = 6;
  double run_limit_s = 20;  // a probe that would take longer only allocates
};

// The peak of forward and backward by the memory model; nothing runs.
Bytes predicted_peak(const AttentionWorkload& workload, Device& device);

// The longest multiple of `step`, at most `max_seq_len`, whose predicted peak is within `budget`; 0
// if not even one step fits.
int64_t predicted_frontier(AttentionWorkload workload, Device& device, Bytes budget, int64_t step,
                           int64_t max_seq_len);

// Ignores the workload's length. The row is unsupported, without a probe, if no kernel supports the
// problem.
Record describe_frontier(const AttentionWorkload& workload, Device& device,
                         const FrontierOptions& options, const Record& blank);
double expected_frontier_s(const AttentionWorkload& workload, const Device& device,
                           const FrontierOptions& options, const Record& described);
// Returns nullopt if interrupted. If nothing fits, the row is out of memory, or invalid if the last
// probe that did not fit failed for another reason.
std::optional<Record> find_frontier(const AttentionWorkload& workload, Device& device,
                                    const FrontierOptions& options, Record described);

// Carries out a probe in this process and returns the ledger's peak. Throws out_of_memory.
Bytes probe_length(const AttentionWorkload& workload, Device& device, ProbeMethod method);

}  // namespace ridgeline
