// Tries one length of the frontier's search in a child process; a child that is killed is a result.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "studies/flags.h"
#include "studies/frontier/row.h"

namespace ridgeline {

// The internal command by which a child answers a probe.
inline constexpr const char* kFrontierProbeCommand = "frontier-probe";

// The row's identity as flags: "--impl flash --batch-size 8 ...".
Words problem_words(const AttentionWorkload& workload);

struct ChildProbeOptions {
  Words device_words;    // flags of the same device and budget
  std::string patience;  // "5min"
  std::function<bool()> interrupted = {};
};
// What a child's line says; failed if it is neither a peak nor out_of_memory.
ProbeResult parse_probe_answer(const std::string& line);
// Returns nullopt if interrupted.
std::optional<ProbeResult> probe_in_child(const AttentionWorkload& workload, ProbeMethod method,
                                          const ChildProbeOptions& options);

// The child's side.
struct ProbeFlags {
  std::string implementation = "naive", dtype = "fp32", method = "run";
  AttentionConfig config = {};
};
void add_probe_flags(Flags& flags, ProbeFlags* probe);
// Makes this process die with its parent, and be the first that the kernel's OOM killer ends.
void prepare_probe_process();
// Tries the length and prints the result as one line of JSON.
void answer_probe(const ProbeFlags& flags, Device& device);

}  // namespace ridgeline
