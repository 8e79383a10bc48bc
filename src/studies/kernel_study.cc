#include "studies/kernel_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>

#include "base/error.h"
#include "studies/attention_study.h"
#include "studies/attention_verify.h"
#include "studies/device_facts.h"
#include "studies/device_modes.h"
#include "studies/host_tensors.h"
#include "studies/kernel_calls.h"

namespace ridgeline {
namespace {

constexpr const char* kConventions =
    "gflops_per_s counts 4 B H S S d forward, halved when causal, 2.5 times that backward, an FMA "
    "as two; gb_per_s counts 4 B H S d elements forward (q, k, v, output) and 8 backward, whatever "
    "the caches saved; queries_per_s is B H S / t; all from the median";
constexpr const char* kUtilisation =
    "products that were needed, over the dense peak of all multiprocessors (or cores) at the clock "
    "seen after the samples";

double now_ms() {
  using namespace std::chrono;
  return duration<double, std::milli>(steady_clock::now().time_since_epoch()).count();
}

// Elements that the convention of GB/s counts.
double counted_bytes(const AttentionConfig& config, bool backward) {
  return (backward ? 8.0 : 4.0) * static_cast<double>(config.batch_size * config.heads) *
         static_cast<double>(config.seq_len * config.head_dim) * info(config.dtype).size;
}

// Twice the cache, so that nothing of a copy is left when its turn comes again.
int64_t rotation_copies(const AttentionConfig& config, bool backward, Bytes cache) {
  const Bytes inputs = fused_bytes(config, backward).inputs;
  return std::max<int64_t>(2, (2 * cache.count + inputs.count - 1) / inputs.count);
}

struct Pass {
  const char* name;
  const char* host;  // its series of host times
  void (KernelCalls::*call)(int64_t copy);
  PhaseCost CostFacts::*cost;
};

constexpr std::array kPasses = {
    Pass{"forward", "forward_host", &KernelCalls::forward, &CostFacts::forward},
    Pass{"backward", "backward_host", &KernelCalls::backward, &CostFacts::backward},
};

std::span<const Pass> passes(bool backward) {
  return std::span(kPasses).first(backward ? 2 : 1);
}

}  // namespace

// What is measured for one row: the calls, and how one sample of a pass is taken.
class KernelStudy::Row {
 public:
  Row(const KernelWorkload& workload, Device& device, const KernelStudyOptions& options,
      const Record& described)
      : workload_(workload), device_(device), options_(options) {
    const bool fused =
        find_attention_implementation(workload.implementation).form == AttentionForm::fused;
    copies_ = described.settings["copies"];
    calls_ = described.settings["calls_per_sample"];
    can_repeat_ = fused;
    on_gpu_ = device.facts().kind == "cuda";
    const KernelCallOptions how{
        .copies = copies_, .backward = options.backward, .seed = options.seed};
    calls_of_ = fused ? fused_calls(workload.config, device, how)
                      : plain_calls(workload.config, device, how);
    if (workload.mode == KernelMode::cold)
      flush_ = cache_flush(device, last_cache(device.facts(), described.machine));
  }

  KernelCalls& calls() { return *calls_of_; }

  // After the first run, so that a capture finds every kernel loaded.
  void prepare() {
    // A backward reads what the forward of its copy has written.
    for (int64_t copy = 1; options_.backward && copy < copies_; ++copy) calls_of_->forward(copy);
    if (workload_.mode != KernelMode::graph) return;
    if (!calls_of_->can_be_captured())
      throw Error(ErrorKind::unsupported,
                  "naive attention allocates as it runs: it cannot be captured in a launch graph",
                  "measure it hot or cold");
    for (const Pass& pass : passes(options_.backward))
      graphs_.push_back(captured(device_, [&] {
        for (int call = 0; call < calls_; ++call) (calls_of_.get()->*pass.call)(0);
      }));
  }

  // The time of one call on the device, and the host's until it returns, in milliseconds.
  struct Sample {
    double device_ms = 0;
    double host_ms = 0;
  };
  Sample sample(size_t pass_index) {
    if (flush_) flush_();
    if (lead_in(pass_index)) start(pass_index);
    double host_ms = 0;
    const double device_ms = device_.time_ms([&] {
      const double begin = now_ms();
      start(pass_index);
      host_ms = now_ms() - begin;
    });
    last_ms_[pass_index] = device_ms;
    return {device_ms / calls_, host_ms / calls_};
  }

 private:
  // A GPU that has run dry waits for the next launch, which would count as the kernel's time. The
  // same work before the timed one keeps it busy; where a sample is long, the wait is nothing.
  bool lead_in(size_t pass_index) const {
    constexpr double kLongSampleMs = 2;
    return on_gpu_ && !flush_ && last_ms_[pass_index] < kLongSampleMs && can_repeat_;
  }

  // The calls of one sample.
  void start(size_t pass_index) {
    if (!graphs_.empty()) return graphs_[pass_index]();
    for (int call = 0; call < calls_; ++call) {
      int64_t& copy = next_copy_[pass_index];
      (calls_of_.get()->*kPasses[pass_index].call)(copy);
      if (++copy == copies_) copy = 0;
    }
  }

  const KernelWorkload& workload_;
  Device& device_;
  const KernelStudyOptions& options_;
  int64_t copies_ = 1;
  int calls_ = 1;
  bool on_gpu_ = false;
  bool can_repeat_ = true;  // a pass without the other
  std::unique_ptr<KernelCalls> calls_of_;
  std::function<void()> flush_;
  std::vector<std::function<void()>> graphs_;  // one per pass
  std::array<int64_t, kPasses.size()> next_copy_{};
  std::array<double, kPasses.size()> last_ms_{};
};

KernelStudy::KernelStudy(Device& device, KernelStudyOptions options)
    : device_(device), options_(std::move(options)) {
  if (options_.calls_per_sample == 0)
    options_.calls_per_sample = device.facts().kind == "cuda" ? 10 : 1;
}

Record KernelStudy::describe(const KernelWorkload& workload, const Record& blank) const {
  const AttentionConfig& config = workload.config;
  const AttentionForm form = find_attention_implementation(workload.implementation).form;
  const bool fused = form == AttentionForm::fused;
  const bool rotates = workload.mode == KernelMode::cold_rotate;
  // Naive attention frees in its backward what its forward made: the two take turns, one by one.
  const bool one_by_one = workload.mode == KernelMode::cold || !fused;
  Record record = blank;
  record.study = "kernel";
  record.implementation = workload.implementation;
  record.device = device_.name();
  record.workload = {{"batch_size", config.batch_size}, {"heads", config.heads},
                     {"seq_len", config.seq_len},       {"head_dim", config.head_dim},
                     {"causal", config.causal},         {"dtype", info(config.dtype).name}};
  record.settings = device_settings(device_, options_.seed);
  record.settings.update(options_.settings);
  record.settings["mode"] = info(workload.mode).name;
  record.settings["calls_per_sample"] = one_by_one ? 1
                                        : workload.mode == KernelMode::graph
                                            ? options_.graph_calls
                                            : options_.calls_per_sample;
  const Bytes cache = last_cache(device_.facts(), record.machine);
  record.settings["copies"] = rotates ? rotation_copies(config, options_.backward, cache) : 1;
  record.settings["passes"] = options_.backward ? "forward and backward" : "forward";
  if (fused && options_.backward) record.settings["backward"] = name(config.backward);

  const Graph graph = attention_training_graph(config, form);
  record.cost = attention_cost(config, graph);
  if (fused) {
    const FusedBytes bytes = fused_bytes(config, options_.backward, scratch_of(device_));
    record.memory.predicted_peak =
        Bytes{bytes.all.count * record.settings["copies"].get<int64_t>()} + bytes.scratch;
  } else {
    record.memory.predicted_peak = memory(graph, eager_schedule(graph), scratch_of(device_)).peak;
  }
  return record;
}

std::optional<Record> KernelStudy::run(const KernelWorkload& workload, Record record) {
  const AttentionConfig& config = workload.config;
  const std::span<const Pass> measured = passes(options_.backward);
  record.time = utc_now();
  try {
    device_.ledger().start_over();
    Row row(workload, device_, options_, record);
    const double before_first_ms = now_ms();
    row.calls().run_poisoned(options_.backward);
    const double first_run_s = (now_ms() - before_first_ms) / 1e3;
    if (options_.verify) {
      KernelWorkload problem = workload;
      problem.mode = KernelMode::hot;
      if (label(problem) != verified_problem_) {
        HostThreads threads(device_);
        verification_ = verify_attention(
            config, {.log_sum_exp = row.calls().has_log_sum_exp(), .gradients = options_.backward},
            [&](const char* tensor, int64_t head) { return row.calls().read(tensor, head); },
            options_.seed, threads.runner());
        verified_problem_ = label(problem);
      }
      record.verification = verification_;
      record.error = first_wrong_tensor(verification_);
      if (!record.error.empty()) record.status = Status::wrong;
    }
    row.prepare();

    std::vector<std::string> series;
    for (const Pass& pass : measured) series.insert(series.end(), {pass.name, pass.host});
    record.device_before = device_state(device_);
    const Measurement measurement =
        measure(options_.protocol, series,
                [&](std::span<double> phase_ms) {
                  for (size_t pass = 0; pass < measured.size(); ++pass) {
                    const auto taken = row.sample(pass);
                    phase_ms[2 * pass] = taken.device_ms;
                    phase_ms[2 * pass + 1] = taken.host_ms;
                  }
                },
                {.interrupted = options_.interrupted});
    record.device_after = device_state(device_);
    if (measurement.interrupted()) return std::nullopt;
    record.series = measurement.series;
    record.protocol = measurement.protocol;
    record.protocol.first_run_s = first_run_s;
    record.memory.peak = device_.ledger().peak();
    derive(workload, record);
  } catch (const Error& error) {
    const std::optional<Status> status = status_of(error);
    if (!status) throw error.at(label(workload));
    record.status = *status;
    record.error = error.message();
  }
  return record;
}

void KernelStudy::derive(const KernelWorkload& workload, Record& record) const {
  const AttentionConfig& config = workload.config;
  const std::string_view dtype = info(config.dtype).name;
  const auto queries = static_cast<double>(config.batch_size * config.heads * config.seq_len);
  const DeviceFacts facts = device_.facts();
  const Peaks limits = device_peaks(facts, record.machine, dtype);
  const std::optional<double> peak = peak_at_clock_seen(facts, record, dtype);
  Json metrics = Json::object();
  for (const Pass& pass : passes(options_.backward)) {
    const bool backward = pass.cost == &CostFacts::backward;
    const PhaseCost& cost = *record.cost.*pass.cost;
    const double seconds = record.find_series(pass.name)->statistics.median_ms / 1e3;
    const double needed = 2.0 * static_cast<double>(cost.macs) / seconds;
    Json of = {{"gflops_per_s", static_cast<double>(cost.flops) / seconds / 1e9},
               {"gb_per_s", counted_bytes(config, backward) / seconds / 1e9},
               {"queries_per_s", queries / seconds},
               {"host_us", 1e3 * record.find_series(pass.host)->statistics.median_ms}};
    if (peak) of["sm_utilization"] = needed / *peak;
    metrics[pass.name] = std::move(of);

    Achieved achieved{.flops_per_s = needed};
    // Reads of an empty cache must come from memory; writes may still be in the cache.
    if (workload.mode == KernelMode::cold && facts.kind == "cuda")
      achieved.bytes_per_s = 0.75 * counted_bytes(config, false) / seconds;
    if (const auto reason = faster_than_light(achieved, limits);
        reason && record.status == Status::ok) {
      record.status = Status::invalid;
      record.error = fmt::format("{}: {}", pass.name, *reason);
    }
  }
  metrics["conventions"] = kConventions;
  metrics["mode_is"] = fmt::format("{}: {}", info(workload.mode).name, info(workload.mode).summary);
  metrics["sm_utilization_is"] = kUtilisation;
  record.metrics = std::move(metrics);
}

}  // namespace ridgeline
