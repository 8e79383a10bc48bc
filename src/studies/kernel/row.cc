#include "studies/kernel/row.h"

#include <algorithm>

#include "base/clock.h"
#include "runtime/scratch.h"
#include "studies/attention/row.h"
#include "studies/attention/verify.h"
#include "studies/busy_time.h"
#include "studies/device_facts.h"
#include "studies/device_modes.h"
#include "studies/expected_time.h"
#include "studies/host_tensors.h"
#include "studies/kernel/metrics.h"
#include "studies/kernel/sampler.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

// Copies that fill twice the cache, so that a copy has been evicted when it is used again.
int64_t rotation_copies(const AttentionConfig& config, bool backward, Bytes cache) {
  const Bytes inputs = fused_bytes(config, backward).inputs;
  return std::max<int64_t>(2, (2 * cache.count + inputs.count - 1) / inputs.count);
}

// Whether attention is one node (ours, the user's kernel, or a peer) rather than a node per step.
bool is_fused(const KernelWorkload& workload) {
  return workload.origin != Origin::ridgeline ||
         find_attention_implementation(workload.implementation).form == AttentionForm::fused;
}

}  // namespace

KernelStudy::KernelStudy(Device& device, KernelStudyOptions options)
    : device_(device), options_(std::move(options)), meter_(utilisation_of(device)) {
  if (options_.calls_per_sample == 0) options_.calls_per_sample = device.has_queue() ? 10 : 1;
}

Record KernelStudy::describe(const KernelWorkload& workload, const Record& blank) const {
  const AttentionConfig& config = workload.config;
  const bool fused = is_fused(workload);
  // The user's kernel has only a forward pass.
  const bool backward = options_.backward && workload.origin != Origin::own;
  const bool rotates = workload.mode == KernelMode::cold_rotate;
  // Naive attention frees in backward what forward allocated, so the two passes alternate per call.
  const bool one_by_one = workload.mode == KernelMode::cold || !fused;
  Record record = describe_row({.study = "kernel",
                                .implementation = workload.implementation,
                                .workload = {{"batch_size", config.batch_size},
                                             {"heads", config.heads},
                                             {"seq_len", config.seq_len},
                                             {"head_dim", config.head_dim},
                                             {"causal", config.causal},
                                             {"dtype", info(config.dtype).name}}},
                               options_.row, device_, blank);
  record.settings["mode"] = info(workload.mode).name;
  record.settings["calls_per_sample"] = one_by_one ? 1
                                        : workload.mode == KernelMode::graph
                                            ? options_.graph_calls
                                            : options_.calls_per_sample;
  const Bytes cache = last_cache(device_.facts(), record.machine);
  record.settings["copies"] = rotates ? rotation_copies(config, backward, cache) : 1;
  record.settings["passes"] = backward ? "forward and backward" : "forward";
  if (workload.origin == Origin::ridgeline && fused && backward)
    record.settings["backward"] = name(config.backward);

  const Graph graph =
      attention_training_graph(config, fused ? AttentionForm::fused : AttentionForm::plain);
  record.cost = attention_cost(config, graph);
  if (workload.origin != Origin::ridgeline) return record;  // its memory cannot be predicted
  record.error = refusal(config, fused ? AttentionForm::fused : AttentionForm::plain);
  if (!record.error.empty()) {
    record.status = Status::unsupported;
  } else if (fused) {
    const FusedBytes bytes = fused_bytes(config, options_.backward, scratch_of(device_));
    record.memory.predicted_peak =
        Bytes{bytes.all.count * record.settings["copies"].get<int64_t>()} + bytes.scratch;
  } else {
    record.memory.predicted_peak = memory(graph, eager_schedule(graph), scratch_of(device_)).peak;
  }
  return record;
}

double KernelStudy::expected_s(const KernelWorkload& workload, const Record& described) const {
  return expected_attention_s(
      workload.config, described, device_,
      {.protocol = options_.row.protocol,
       .verify = options_.row.verify,
       .backward = options_.backward,
       .calls_per_sample = described.settings["calls_per_sample"].get<int>()});
}

const Verification& KernelStudy::verify(const KernelWorkload& workload, KernelCalls& calls) {
  if (problem_of(workload) == verified_problem_) return verification_;
  HostThreads threads(device_);
  verification_ = verify_attention(
      workload.config, {.log_sum_exp = calls.has_log_sum_exp(), .gradients = options_.backward},
      [&](const char* tensor, int64_t head) { return calls.read(tensor, head); }, options_.row.seed,
      threads.runner());
  verified_problem_ = problem_of(workload);
  return verification_;
}

std::optional<Record> KernelStudy::run(const KernelWorkload& workload, Record described) {
  const AttentionConfig& config = workload.config;
  return try_row(std::move(described), label(workload), [&](Record& record) {
    device_.ledger().start_over();
    const bool fused = is_fused(workload);
    const KernelSamplerOptions how{.mode = workload.mode,
                                   .backward = options_.backward,
                                   .copies = record.settings["copies"].get<int64_t>(),
                                   .calls = record.settings["calls_per_sample"].get<int>(),
                                   .can_repeat = fused,
                                   .cache = last_cache(device_.facts(), record.machine)};
    const KernelCallOptions calls{
        .copies = how.copies, .backward = how.backward, .seed = options_.row.seed};
    KernelSampler row(
        fused ? fused_calls(config, device_, calls) : plain_calls(config, device_, calls), device_,
        how);
    const double before_first_s = monotonic_s();
    row.calls().run_poisoned(options_.backward);
    const double first_run_s = monotonic_s() - before_first_s;
    if (options_.row.verify) take_verification(record, verify(workload, row.calls()));
    row.prepare();

    sample_row(record, device_, options_.row, kernel_series(options_.backward),
               [&](std::span<double> phase_ms) { row.sample(phase_ms); });
    record.protocol.first_run_s = first_run_s;
    record.memory.peak = device_.ledger().peak();
    const AttentionForm form = fused ? AttentionForm::fused : AttentionForm::plain;
    record.metrics =
        Json{{"arithmetic", arithmetic_metrics(attention_training_graph(config, form), device_)}};
    add_kernel_metrics(workload, device_, record);
    std::vector<BusyPhase> phases;
    for (size_t pass = 0; pass < row.passes(); ++pass)
      phases.push_back({record.series[2 * pass].name, [&, pass] { return row.busy_ms(pass); }});
    add_busy_times(phases, record);
    for (size_t pass = 0; pass < row.passes(); ++pass)
      add_utilization(meter_, device_, record.series[2 * pass].name, row.repeatable(pass), record);
  });
}

}  // namespace ridgeline
