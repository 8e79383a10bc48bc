#include "studies/frontier/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "base/error.h"
#include "compile/executable.h"
#include "studies/expected_time.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr ProbeMethodInfo kMethods[] = {{ProbeMethod::run, "run"},
                                        {ProbeMethod::allocate, "allocate"}};

std::string_view outcome_name(ProbeResult::Outcome outcome) {
  switch (outcome) {
    case ProbeResult::Outcome::fits:
      return "fits";
    case ProbeResult::Outcome::out_of_memory:
      return "oom";
    case ProbeResult::Outcome::failed:
      return "failed";
  }
  return "";
}

// Seconds of forward and backward, if every implementation reaches the same share of the peak.
double expected_run_s(const AttentionConfig& config, int64_t seq_len, const Device& device,
                      const MachineFacts& machine) {
  const auto s = static_cast<double>(seq_len);
  const auto width = static_cast<double>(config.batch_size * config.heads * config.head_dim);
  return expected_once_s(
      {.flops = kFlopsOfBothPasses * width * s * s, .dtype = info(config.dtype).name}, device,
      machine);
}

// The state of the search: lengths up to `fits` fit, those from `fails` on do not.
struct Bracket {
  int64_t fits = 0;
  int64_t fails = 0;       // 0: unknown
  bool for_memory = true;  // whether `fails` ran out of memory
};

// The next length to probe; 0 if the search is done. The predicted length comes first, then the
// next one; where the prediction was wrong, the search extends or bisects.
int64_t next_length(const Bracket& bracket, int64_t predicted, const FrontierOptions& options) {
  const auto whole = [&](int64_t length) { return length / options.step * options.step; };
  if (bracket.fits == 0 && bracket.fails == 0) return predicted;
  if (bracket.fails == 0) {
    const int64_t further = bracket.fits == predicted
                                ? predicted + options.step
                                : whole(bracket.fits + (bracket.fits - predicted) * 2);
    return further <= options.max_seq_len ? further : 0;
  }
  if (bracket.fails - bracket.fits <= options.step) return 0;
  // While nothing fits, a length just below the failure is likelier than half of it.
  const int64_t little = whole(bracket.fails - std::max(options.step, bracket.fails / 16));
  return std::max({little > bracket.fits && bracket.fits == 0 ? little : 0,
                   whole((bracket.fits + bracket.fails) / 2), options.step});
}

}  // namespace

const Choices<ProbeMethodInfo> kProbeMethods{"a way to probe", kMethods};

Bytes predicted_peak(const AttentionWorkload& workload, Device& device) {
  return Executable(attention_trace(workload), device, attention_options(workload))
      .predicted_peak();
}

int64_t predicted_frontier(AttentionWorkload workload, Device& device, Bytes budget, int64_t step,
                           int64_t max_seq_len) {
  const auto fits = [&](int64_t steps) {
    workload.config.seq_len = steps * step;
    return predicted_peak(workload, device) <= budget;
  };
  int64_t low = 0, high = max_seq_len / step + 1;  // low fits; high does not, or is out of range
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low * step;
}

Record describe_frontier(const AttentionWorkload& workload, Device& device,
                         const FrontierOptions& options, const Record& blank) {
  if (options.max_seq_len < options.step)
    throw Error(ErrorKind::usage,
                fmt::format("--max-seq-len {} is below --step {}, so there is no length to try",
                            options.max_seq_len, options.step),
                "raise the one or lower the other");
  const AttentionConfig& config = workload.config;
  Json problem = workload_json(config);
  problem.erase("seq_len");
  Record record = describe_row({.study = "frontier",
                                .implementation = workload.implementation,
                                .workload = std::move(problem)},
                               options.row, device, blank);
  record.settings["memory_budget_bytes"] = device.ledger().budget().count;
  record.settings["step"] = options.step;
  record.settings["max_seq_len"] = options.max_seq_len;
  record.settings["max_probes"] = options.max_probes;
  record.settings["run_limit_s"] = options.run_limit_s;
  record.error = refusal(config, find_attention_implementation(workload.implementation).form);
  if (!record.error.empty()) {
    record.status = Status::unsupported;
    record.metrics = Json::object();
    return record;
  }
  const int64_t longest = predicted_frontier(workload, device, device.ledger().budget(),
                                             options.step, options.max_seq_len);
  record.metrics = Json{{"predicted_seq_len", longest}};
  if (longest > 0) {
    AttentionWorkload at = workload;
    at.config.seq_len = longest;
    record.memory.predicted_peak = predicted_peak(at, device);
  }
  return record;
}

double expected_frontier_s(const AttentionWorkload& workload, const Device& device,
                           const FrontierOptions& options, const Record& described) {
  constexpr double kProbes = 3;         // if the memory model is right
  constexpr double kStartS = 0.05;      // to start a process
  constexpr double kTouchedPerS = 4e9;  // bytes per second that are first touched
  if (described.status != Status::ok) return 0;
  const double run_s =
      expected_run_s(workload.config, (*described.metrics)["predicted_seq_len"].get<int64_t>(),
                     device, described.machine);
  const double touch_s =
      static_cast<double>(described.memory.predicted_peak.value_or(Bytes{}).count) / kTouchedPerS;
  return kProbes * (kStartS + touch_s + (run_s <= options.run_limit_s ? run_s : 0));
}

std::optional<Record> find_frontier(const AttentionWorkload& workload, Device& device,
                                    const FrontierOptions& options, Record record) {
  record.time = utc_now();
  if (record.status != Status::ok) return record;
  Json& metrics = *record.metrics;
  const int64_t predicted = metrics["predicted_seq_len"].get<int64_t>();
  metrics["probes"] = Json::array();
  Bracket bracket;
  if (predicted == 0) bracket.fails = options.step;
  std::string failure;
  for (int probe = 0; probe < options.max_probes; ++probe) {
    const int64_t length = next_length(bracket, predicted, options);
    if (length <= 0 || length == bracket.fails || (length == bracket.fits && probe > 0)) break;
    AttentionWorkload at = workload;
    at.config.seq_len = length;
    const ProbeMethod method =
        expected_run_s(at.config, length, device, record.machine) <= options.run_limit_s
            ? ProbeMethod::run
            : ProbeMethod::allocate;
    const std::optional<ProbeResult> result = options.probe(at, method);
    if (!result) return std::nullopt;
    Json entry = {{"seq_len", length},
                  {"outcome", outcome_name(result->outcome)},
                  {"method", kProbeMethods[method].name},
                  {"predicted_peak_bytes", predicted_peak(at, device).count},
                  {"seconds", result->seconds}};
    if (result->peak) entry["peak_bytes"] = result->peak->count;
    if (!result->detail.empty()) entry["detail"] = result->detail;
    metrics["probes"].push_back(std::move(entry));
    if (result->outcome == ProbeResult::Outcome::fits) {
      bracket.fits = length;
      record.memory.peak = result->peak;
      record.memory.predicted_peak = predicted_peak(at, device);
    } else {
      bracket.fails = length;
      bracket.for_memory = result->outcome == ProbeResult::Outcome::out_of_memory;
      failure = result->detail;
    }
  }
  if (bracket.fits == 0) {
    record.status = bracket.for_memory ? Status::oom : Status::invalid;
    record.error = failure.empty() ? fmt::format("not even S={} fits", options.step)
                                   : fmt::format("no probe fitted: {}", failure);
    return record;
  }
  metrics["seq_len"] = bracket.fits;
  if (bracket.fails > 0 && bracket.for_memory) metrics["first_oom_seq_len"] = bracket.fails;
  const bool saw_all = bracket.fits + options.step > options.max_seq_len;
  metrics["limited_by"] = bracket.fails == 0
                              ? (saw_all ? std::string("the longest length looked at")
                                         : fmt::format("--max-probes {}", options.max_probes))
                          : bracket.for_memory ? std::string("memory")
                                               : fmt::format("a probe that failed: {}", failure);
  return record;
}

namespace {

// Calls `take` for everything that a schedule allocates, with the same lifetimes.
void walk_schedule(const MemoryProfile& profile,
                   const std::function<Allocation(Bytes, const std::string&)>& take) {
  std::vector<Allocation> held(profile.lifetimes.size());
  const auto steps = static_cast<int64_t>(profile.live.size());
  for (int64_t step = -1; step < steps; ++step) {
    Bytes live;
    for (size_t i = 0; i < held.size(); ++i) {
      const Lifetime& lifetime = profile.lifetimes[i];
      if (lifetime.first_step == step && lifetime.bytes > Bytes{})
        held[i] = take(lifetime.bytes, lifetime.name);
      if (held[i]) live += lifetime.bytes;
    }
    if (step < 0) continue;
    const Bytes scratch = profile.live[static_cast<size_t>(step)] - live;
    if (scratch > Bytes{}) take(scratch, "scratch");
    for (size_t i = 0; i < held.size(); ++i)
      if (profile.lifetimes[i].last_step == step) held[i] = Allocation();
  }
}

}  // namespace

Bytes probe_length(const AttentionWorkload& workload, Device& device, ProbeMethod method) {
  Executable executable(attention_trace(workload), device, attention_options(workload));
  if (method == ProbeMethod::run) {
    executable.prepare();
    const Graph& graph = executable.graph();
    for (Value value : graph.inputs()) device.poison(executable.input(graph.name(value)));
    for (size_t stage = 0; stage < graph.stages().size(); ++stage) executable.run_stage(stage);
    device.synchronize();
    return device.ledger().peak();
  }
  const auto take = [&](Bytes bytes, const std::string& name) {
    Allocation memory = device.ledger().allocate(bytes, name);
    device.poison({memory.data(), DType::boolean, {bytes.count}, {1}});
    return memory;
  };
  if (const MemoryProfile* profile = executable.profile())
    walk_schedule(*profile, take);
  else
    take(executable.predicted_peak(), "planned arena");
  device.synchronize();
  return device.ledger().peak();
}

}  // namespace ridgeline
