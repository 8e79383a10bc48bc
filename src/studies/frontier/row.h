// The out-of-memory frontier of attention: the longest sequence that fits, found by the memory
// model and confirmed by a few probes.
//
//   Record record = find_frontier(workload, device, {.probe = in_a_child}, described).value();
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "measure/record.h"
#include "runtime/device.h"
#include "studies/attention/workload.h"

namespace ridgeline {

enum class ProbeMethod {
  run,       // forward and backward, once
  allocate,  // every tensor in the order of the schedule, written to, without computing: for
             // sequences whose attention would take too long
};
std::string_view name(ProbeMethod method);
ProbeMethod parse_probe_method(std::string_view text);  // throws a usage error

struct ProbeResult {
  enum class Outcome { fits, out_of_memory, failed } outcome = Outcome::failed;
  std::string detail = {};  // why not
  std::optional<Bytes> peak = {};
  double seconds = 0;
};

// Tries one length, usually in a child process, whose death is a result as well. Empty:
// interrupted.
using FrontierProber =
    std::function<std::optional<ProbeResult>(const AttentionWorkload&, ProbeMethod)>;

struct FrontierOptions {
  FrontierProber probe;
  int64_t step = 128;  // lengths are multiples of it
  int64_t max_seq_len = int64_t{1} << 24;
  int max_probes = 6;
  double run_limit_s = 20;  // a probe that would take longer only allocates
  uint64_t seed = 42;
  Json settings = Json::object();
};

// Peak of forward and backward at a length, by the memory model; nothing runs.
Bytes predicted_peak(const AttentionWorkload& workload, Device& device);

// The longest multiple of `step`, at most `max_seq_len`, whose predicted peak is within `budget`;
// 0: not even one step.
int64_t predicted_frontier(AttentionWorkload workload, Device& device, Bytes budget, int64_t step,
                           int64_t max_seq_len);

// The length of the workload given is not looked at. What no kernel serves is unsupported, and so
// is found without a probe; a search that ends on a probe that failed, but not for memory, and
// found nothing that fits, is invalid.
Record describe_frontier(const AttentionWorkload& workload, Device& device,
                         const FrontierOptions& options, const Record& blank);
double expected_frontier_s(const AttentionWorkload& workload, const Device& device,
                           const FrontierOptions& options, const Record& described);
// Empty when interrupted.
std::optional<Record> find_frontier(const AttentionWorkload& workload, Device& device,
                                    const FrontierOptions& options, Record described);

// What a probe does, in the process that calls it. Throws out_of_memory; gives the ledger's peak.
Bytes probe_length(const AttentionWorkload& workload, Device& device, ProbeMethod method);

}  // namespace ridgeline
