// One length of the frontier's search, tried in a child process, whose death is a result as well.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "studies/flags.h"
#include "studies/frontier/row.h"

namespace ridgeline {

// Not for people: the command of the program that answers a probe.
inline constexpr const char* kFrontierProbeCommand = "frontier-probe";

// What identifies a row, as flags: "--impl flash --batch-size 8" and so on.
Words problem_words(const AttentionWorkload& workload);

struct ChildProbeOptions {
  Words device_words;    // the same device with the same budget
  std::string patience;  // "5min"
  std::function<bool()> interrupted = {};
};
// Empty: interrupted.
std::optional<ProbeResult> probe_in_child(const AttentionWorkload& workload, ProbeMethod method,
                                          const ChildProbeOptions& options);

// The child's side.
struct ProbeFlags {
  std::string implementation = "naive", dtype = "fp32", method = "run";
  AttentionConfig config = {};
};
void add_probe_flags(Flags& flags, ProbeFlags* probe);
// From here on this process dies with its parent, and is the first to go when memory runs out for
// everybody.
void prepare_probe_process();
// Tries the length and prints one line.
void answer_probe(const ProbeFlags& flags, Device& device);

}  // namespace ridgeline
