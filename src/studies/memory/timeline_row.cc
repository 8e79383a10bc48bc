#include "studies/memory/timeline_row.h"

#include <fmt/format.h>

#include "base/clock.h"
#include "base/error.h"
#include "studies/expected_time.h"
#include "studies/memory/recorded_timeline.h"
#include "studies/memory_watch.h"
#include "studies/model/metrics.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

size_t stages_of(const StepWorkload& workload) {
  return workload.scenario == Scenario::forward ? 1 : kAllStages;
}

// Live bytes at the peak, by kind of tensor. For forward alone, memory that is overwritten in place
// keeps its first kind; for whole steps, model_memory() knows the tensor in every block.
ModelMemory at_peak_of(const Executable& executable, const MemoryTimeline& timeline,
                       const StepWorkload& workload) {
  if (workload.scenario != Scenario::forward) return model_memory(executable);
  const Graph& graph = executable.graph();
  const std::vector<MemoryKind> kinds = memory_kinds_of(graph);
  ModelMemory memory;
  for (const LiveTensor& each : alive_at(timeline, timeline.peak_event)) {
    const MemoryTensor& tensor = timeline.tensors[each.tensor];
    const bool is_scratch = tensor.type.empty();
    memory.at_peak[is_scratch ? MemoryKind::workspace
                              : kinds[graph.index({tensor.node, tensor.output})]] += tensor.bytes;
  }
  memory.at_peak[MemoryKind::gaps] = timeline.gaps();
  return memory;
}

// A file that cannot be written does not fail the row.
void write_one(Json& metrics, const std::string& key, const std::filesystem::path& path,
               const std::function<void()>& write) {
  if (path.empty()) return;
  try {
    write();
    metrics[key] = path.string();
  } catch (const Error& error) {
    metrics[key + "_not_written"] = error.message();
  }
}

}  // namespace

TimelineStudy::TimelineStudy(Device& device, TimelineOptions options)
    : device_(device),
      options_(std::move(options)),
      inputs_(device, {.seed = options_.row.seed, .keep = options_.keep_on_host}) {}

Record TimelineStudy::describe(const StepWorkload& workload, const Record& blank) const {
  Record record = describe_row({.study = "memory",
                                .implementation = info(workload.mode).name,
                                .workload = workload_json(workload)},
                               options_.row, device_, blank);
  if (workload.scenario != Scenario::full_step) record.settings.erase("max_norm");
  return record;
}

std::unique_ptr<Executable> TimelineStudy::build(const StepWorkload& workload) const {
  StepWorkload traced = workload;
  if (traced.scenario == Scenario::forward) traced.scenario = Scenario::forward_backward;
  return std::make_unique<Executable>(step_trace(traced, options_.optimizer), device_,
                                      step_options(traced, device_));
}

Bytes TimelineStudy::predicted_peak(const StepWorkload& workload) const {
  return predict_memory(*build(workload), device_, stages_of(workload)).predicted_peak;
}

double TimelineStudy::expected_s(const StepWorkload& workload, const Record& described) const {
  constexpr double kPlanning = 0.5;
  if (!options_.measure) return kPlanning;
  return kPlanning + expected_once_s({.flops = step_flops(workload)}, device_, described.machine);
}

std::optional<Record> TimelineStudy::run(const StepWorkload& workload, const TimelineFiles& files,
                                         Record described) {
  return try_row(std::move(described), label(workload), [&](Record& record) {
    const double begin_s = monotonic_s();
    options_.row.begin("planning");
    const std::unique_ptr<Executable> executable = build(workload);
    const size_t stages = stages_of(workload);
    MemoryTimeline timeline = predict_memory(*executable, device_, stages);
    const auto take = [&](bool is_measured) {
      record.memory.predicted_peak = timeline.predicted_peak;
      record.metrics = Json{{"budget_bytes", device_.ledger().budget().count},
                            {"recomputed", executable->recomputed()},
                            {"timeline", to_json(recorded(timeline, is_measured))}};
      if (std::holds_alternative<ModelWorkload>(workload.of))
        (*record.metrics)["at_peak"] = at_peak_metrics(at_peak_of(*executable, timeline, workload));
      if (!executable->fallback().empty())
        (*record.metrics)["ran_eagerly_because"] = executable->fallback();
    };
    take(/*is_measured=*/false);
    const auto write = [&] {
      options_.row.begin("writing events");
      write_one(*record.metrics, "timeline_csv", files.events,
                [&] { write_table(files.events, timeline_events(timeline)); });
      write_one(*record.metrics, "snapshot", files.snapshot,
                [&] { write_memory_snapshot(timeline, files.snapshot); });
    };
    if (!options_.measure || timeline.predicted_peak > device_.ledger().budget()) {
      write();
      if (options_.measure) expect_within_budget(timeline.predicted_peak, device_);
      return;
    }
    if (options_.row.interrupted && options_.row.interrupted()) throw Interrupted();
    MemoryWatch watch(device_);
    options_.row.begin("compiling");
    executable->prepare();
    options_.row.begin("parameters");
    fill_inputs(workload, *executable, inputs_, {device_, options_.row.seed, options_.optimizer});
    watch.after_fill();
    options_.row.begin("running");
    timeline = measure_memory(*executable, device_, stages);
    watch.after_run(record.memory);
    take(/*is_measured=*/true);
    record.protocol = {.warmups = 0, .iterations = 1, .elapsed_s = monotonic_s() - begin_s};
    write();
  });
}

Table timeline_events(const MemoryTimeline& timeline) {
  Table table{.title = "memory timeline",
              .columns = {"event", "node", "scope", "phase", "bytes", "live_bytes",
                          "predicted_live_bytes", "op", "type"},
              .rows = {}};
  for (size_t i = 0; i < timeline.events.size(); ++i) {
    const MemoryEvent& event = timeline.events[i];
    const MemoryTensor& tensor = timeline.tensors[event.tensor];
    const int64_t bytes = tensor.bytes.count;
    table.rows.push_back({fmt::to_string(i), tensor.name, tensor.scope,
                          event.phase == kNobody ? "inputs" : timeline.phases[event.phase],
                          fmt::to_string(event.is_allocation ? bytes : -bytes),
                          fmt::to_string(event.live.count),
                          fmt::to_string(event.predicted_live.count), tensor.op, tensor.type});
  }
  return table;
}

}  // namespace ridgeline
