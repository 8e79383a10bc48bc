#include "studies/attention_study.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "base/error.h"
#include "base/random.h"
#include "cost/cost.h"
#include "cost/memory.h"
#include "kernels/cpu/simd_kernels.h"
#include "measure/process_memory.h"
#include "measure/speed_of_light.h"
#include "runtime/eager_executor.h"
#include "studies/attention_verify.h"

namespace ridgeline {
namespace {

constexpr const char* kConvention =
    "forward 4 B H S S d, halved when causal; backward 2.5 times forward; an FMA counts as two. "
    "macs and bytes are exact counts over the nodes that ran";

Graph workload_graph(const AttentionWorkload& workload) {
  return attention_training_graph(workload.config,
                                  find_attention_implementation(workload.implementation).form);
}

CostFacts cost_facts(const AttentionConfig& config, const Graph& graph) {
  const auto s = static_cast<double>(config.seq_len);
  const double forward_flops = 4.0 * static_cast<double>(config.batch_size * config.heads) * s * s *
                               static_cast<double>(config.head_dim) / (config.causal ? 2 : 1);
  if (forward_flops > 0x1p60)
    throw Error(ErrorKind::usage,
                fmt::format("S={} d={} needs {:.3g} FLOP forward, too many to count",
                            config.seq_len, config.head_dim, forward_flops),
                "choose smaller sizes");
  const std::vector<Stage> stages = graph.stages();
  const auto phase = [&](const Stage& stage, double flops) {
    const Cost exact = stage_cost(graph, stage);
    return PhaseCost{static_cast<int64_t>(flops), static_cast<int64_t>(exact.macs),
                     Bytes{static_cast<int64_t>(exact.bytes)}};
  };
  return {phase(stages[0], forward_flops), phase(stages[1], 2.5 * forward_flops), kConvention};
}

// Bytes of tensors with S x S elements that live at the peak.
Bytes quadratic_bytes(const AttentionConfig& config, const Graph& graph,
                      const MemoryProfile& profile) {
  Bytes total;
  for (const Lifetime& lifetime : profile.at_peak()) {
    const Shape& shape = graph.type(lifetime.value).shape;
    if (shape.rank() >= 2 && shape.back(0) == config.seq_len && shape.back(1) == config.seq_len &&
        config.seq_len != config.head_dim)
      total += lifetime.bytes;
  }
  return total;
}

// Normal random values, piece by piece, so that filling needs no second copy of the tensor.
void fill_randomly(Device& device, const TensorView& view, uint64_t seed, const std::string& name) {
  constexpr int64_t kPiece = 4096;
  NormalRandom random(seed, name);
  std::vector<float> values(kPiece);
  std::vector<char> stored(kPiece * 4);
  const int size = info(view.dtype).size;
  const int64_t count = element_count(view.shape);
  for (int64_t first = 0; first < count; first += kPiece) {
    const int64_t n = std::min(kPiece, count - first);
    for (int64_t i = 0; i < n; ++i)
      values[static_cast<size_t>(i)] = static_cast<float>(random.next());
    simd_kernels(Isa::portable).store(view.dtype, values.data(), stored.data(), n);
    device.upload({static_cast<char*>(view.data) + first * size, view.dtype, {n}, {1}},
                  stored.data());
  }
}

double elapsed_ms(std::chrono::steady_clock::time_point from) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - from).count();
}

// Memory of one run, by the ledger and by the operating system.
class MemoryWatch {
 public:
  explicit MemoryWatch(Ledger& ledger) : ledger_(ledger) {
    ledger.start_over();
    resettable_ = reset_peak_rss();
    before_ = current_rss();
  }

  void after_run(MemoryFacts& facts) const {
    facts.peak = ledger_.peak();
    const std::optional<Bytes> peak = peak_rss();
    if (resettable_ && before_ && peak) facts.process_peak_growth = *peak - *before_;
  }

 private:
  Ledger& ledger_;
  bool resettable_ = false;
  std::optional<Bytes> before_;
};

void check_speed(Record& record, const CpuDevice& device, std::string_view dtype) {
  // The flash kernels use AMX for bf16 where the processor has it.
  const std::vector<std::string>& has = record.machine.isa;
  const bool amx = dtype == "bf16" && std::find(has.begin(), has.end(), "amx_bf16") != has.end();
  const Peaks peaks = cpu_peaks({.isa = amx ? "amx" : name(device.isa()),
                                 .dtype = dtype,
                                 .threads = device.threads(),
                                 .max_clock_hz = generous_max_clock_hz(record.machine)});
  const auto check = [&](const char* phase, const PhaseCost& cost) {
    const double seconds = record.find_series(phase)->statistics.median_ms / 1e3;
    const Achieved achieved{.flops_per_s = 2.0 * static_cast<double>(cost.macs) / seconds};
    if (const auto reason = faster_than_light(achieved, peaks)) {
      record.status = Status::invalid;
      record.error = fmt::format("{}: {}", phase, *reason);
    }
  };
  check("forward", record.cost->forward);
  check("backward", record.cost->backward);
}

}  // namespace

Record describe_attention(const AttentionWorkload& workload, const CpuDevice& device,
                          const AttentionStudyOptions& options, const Record& blank) {
  const AttentionConfig& config = workload.config;
  Record record = blank;
  record.study = "attention";
  record.implementation = workload.implementation;
  record.device = device.name();
  record.workload = {{"batch_size", config.batch_size}, {"heads", config.heads},
                     {"seq_len", config.seq_len},       {"d_model", config.head_dim},
                     {"causal", config.causal},         {"dtype", info(config.dtype).name}};
  record.settings = {
      {"threads", device.threads()}, {"isa", name(device.isa())}, {"seed", options.seed}};
  if (find_attention_implementation(workload.implementation).form == AttentionForm::fused)
    record.settings["backward"] = name(config.backward);

  const Graph graph = workload_graph(workload);
  const MemoryProfile profile = memory(graph, eager_schedule(graph));
  record.memory.predicted_before_backward = profile.stage_end[0];
  record.memory.predicted_peak = profile.peak;
  record.memory.predicted_quadratic = quadratic_bytes(config, graph, profile);
  record.cost = cost_facts(config, graph);
  return record;
}

std::optional<Record> run_attention(const AttentionWorkload& workload, CpuDevice& device,
                                    const AttentionStudyOptions& options, Record record) {
  const Graph graph = workload_graph(workload);
  const Schedule schedule = eager_schedule(graph);
  record.time = utc_now();
  try {
    const Bytes budget = device.ledger().budget();
    if (!options.try_beyond_budget && *record.memory.predicted_peak > budget)
      throw Error(ErrorKind::out_of_memory,
                  fmt::format("the predicted peak of {} is above the budget of {}; not tried",
                              to_string(*record.memory.predicted_peak), to_string(budget)));
    const MemoryWatch watch(device.ledger());
    EagerExecutor executor(graph, schedule, device);
    for (Value value : graph.inputs())
      fill_randomly(device, executor.input(graph.name(value)), options.seed, graph.name(value));

    // The first run is the one that is looked at: memory, and every value, over poisoned results.
    executor.set_poison(true);
    executor.run_stage(0);
    record.memory.before_backward = device.ledger().live();
    executor.run_stage(1);
    device.synchronize();
    watch.after_run(record.memory);
    executor.set_poison(false);
    if (options.verify) {
      const auto tensor = [&](const char* name) {
        for (const Output& output : graph.outputs())
          if (output.name == name) return executor.output(name);
        return executor.input(name);
      };
      const RangeRunner run = [&](int64_t count,
                                  const std::function<void(int64_t, int64_t)>& body) {
        device.pool().for_range(count, 1, body);
      };
      record.verification = verify_attention(workload.config, tensor, options.seed, run);
      record.error = first_wrong_tensor(record.verification);
      if (!record.error.empty()) record.status = Status::wrong;
    }

    const Measurement measurement =
        measure(options.protocol, {"forward", "backward"},
                [&](std::span<double> phase_ms) {
                  for (size_t stage = 0; stage < phase_ms.size(); ++stage) {
                    const auto start = std::chrono::steady_clock::now();
                    executor.run_stage(stage);
                    device.synchronize();
                    phase_ms[stage] = elapsed_ms(start);
                  }
                },
                {.interrupted = options.interrupted});
    if (measurement.interrupted()) return std::nullopt;
    record.series = measurement.series;
    record.protocol = measurement.protocol;
    if (record.status == Status::ok) check_speed(record, device, info(workload.config.dtype).name);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw error.at(label(workload));
    record.status = Status::oom;
    record.error = error.message();
  }
  return record;
}

}  // namespace ridgeline
