#include "profile/memory_timeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "base/at_end.h"
#include "runtime/scratch.h"

namespace ridgeline {
namespace {

// Builds a timeline event by event.
class Builder {
 public:
  explicit Builder(const Graph& graph, const Plan* plan = nullptr)
      : graph_(graph), plan_(plan), stages_(graph.stages()) {
    for (const Stage& stage : stages_) timeline_.phases.push_back(stage.name);
    timeline_.is_planned = plan != nullptr;
    add_inputs();
  }

  uint32_t tensor_of(Value value) {
    const Node& node = graph_.node(value);
    timeline_.tensors.push_back({.name = graph_.name(value),
                                 .op = std::string(info(node.op).name),
                                 .type = to_string(graph_.type(value)),
                                 .scope = graph_.scope_path(node),
                                 .phase = stages_[graph_.stage_of(value.node)].name,
                                 .node = value.node,
                                 .output = value.output,
                                 .bytes = byte_size(graph_.type(value))});
    return last_tensor();
  }

  uint32_t scratch_of(uint32_t node, std::string name, Bytes bytes) {
    const Node& of = graph_.nodes()[node];
    timeline_.tensors.push_back({.name = std::move(name),
                                 .op = std::string(info(of.op).name),
                                 .type = {},
                                 .scope = graph_.scope_path(of),
                                 .phase = stages_[graph_.stage_of(node)].name,
                                 .node = node,
                                 .bytes = bytes});
    return last_tensor();
  }

  void add(MemoryEvent event) {
    if (event.kernel != kNobody)
      event.phase =
          plan_ ? plan_->kernels[event.kernel].group.stage : graph_.stage_of(event.kernel);
    timeline_.events.push_back(event);
    if (event.live > timeline_.peak()) timeline_.peak_event = timeline_.events.size() - 1;
  }

  MemoryTimeline take() { return std::move(timeline_); }

 private:
  uint32_t last_tensor() const { return static_cast<uint32_t>(timeline_.tensors.size() - 1); }

  void add_inputs() {
    Bytes live;
    for (Value input : graph_.inputs()) {
      const uint32_t tensor = tensor_of(input);
      live += timeline_.tensors[tensor].bytes;
      add({.tensor = tensor, .live = live, .predicted_live = live});
    }
    timeline_.inputs = timeline_.events.size();
  }

  const Graph& graph_;
  const Plan* plan_;
  std::vector<Stage> stages_;
  MemoryTimeline timeline_;
};

// The end of the first `count` stages, in steps or kernels.
uint32_t end_of(const std::vector<Stage>& stages, size_t count) {
  return stages[std::min(count, stages.size()) - 1].end;
}

// An allocation or release predicted from the schedule.
struct PredictedEvent {
  uint32_t kernel;             // during or after which it happens
  std::optional<Value> value;  // empty: scratch of the kernel
  Bytes change;
  Bytes live;  // afterwards
};

// In order, without the inputs, which are live from the beginning.
std::vector<PredictedEvent> predicted_events(const Executable& executable, const Device& device,
                                             size_t stages) {
  const Graph& graph = executable.graph();
  const Schedule& schedule = *executable.schedule();
  const ScratchOf scratch = ridgeline::scratch_of(device);
  std::vector<PredictedEvent> events;
  Bytes live = executable.profile()->inputs;
  uint32_t kernel = kNobody;
  const auto add = [&](std::optional<Value> value, Bytes change) {
    live += change;
    events.push_back({kernel, value, change, live});
  };
  for (const Step& step : std::span(schedule.steps).first(end_of(schedule.stages, stages))) {
    const Node& node = graph.nodes()[step.node];
    if (runs_kernel(graph, schedule.layouts, step.node)) {
      kernel = step.node;
      for (uint32_t output = 0; output < node.outputs.size(); ++output)
        if (owns_memory(graph, schedule.layouts, {step.node, output}))
          add(Value{step.node, output}, byte_size(node.outputs[output]));
      std::vector<TensorType> inputs;
      for (Value input : node.inputs) inputs.push_back(graph.type(input));
      if (const Bytes bytes = scratch(node, inputs); bytes.count > 0) {
        add(std::nullopt, bytes);
        add(std::nullopt, Bytes{} - bytes);
      }
    }
    for (Value value : step.releases) add(value, Bytes{} - byte_size(graph.type(value)));
  }
  return events;
}

// Records which events of the ledger occur during which kernel.
class EventNotes : public KernelObserver {
 public:
  struct Note {
    uint32_t kernel;
    size_t before, after;  // number of ledger events before and after the kernel
  };
  explicit EventNotes(const Ledger& ledger) : ledger_(ledger) {}
  void before(const KernelRun& run) override {
    notes.push_back({static_cast<uint32_t>(run.number), ledger_.events().size(), 0});
  }
  void after(const KernelRun&) override { notes.back().after = ledger_.events().size(); }

  std::vector<Note> notes;

 private:
  const Ledger& ledger_;
};

// Matches the ledger's events with the predicted ones.
class EagerWalk {
 public:
  EagerWalk(const Executable& executable, const Device& device, size_t stages)
      : graph_(executable.graph()),
        layouts_(executable.schedule()->layouts),
        predicted_(predicted_events(executable, device, stages)),
        predicted_live_(executable.profile()->inputs),
        builder_(graph_) {}

  void walk(std::span<const LedgerEvent> events, std::span<const EventNotes::Note> notes) {
    size_t note = 0;
    uint32_t next_output = 0;
    for (size_t i = 0; i < events.size(); ++i) {
      while (note < notes.size() && i >= notes[note].after) {
        ++note;
        next_output = 0;
      }
      // Results are allocated before their kernel, scratch during it. Releases between two kernels
      // belong to the first.
      const bool is_inside = note < notes.size() && i >= notes[note].before;
      const LedgerEvent& event = events[i];
      if (event.change.count < 0) {
        release(event, is_inside || note == 0 ? kernel_at(notes, note) : notes[note - 1].kernel);
        continue;
      }
      const uint32_t kernel = kernel_at(notes, note);
      allocate(event, kernel,
               is_inside || kernel == kNobody ? std::nullopt : next_owner(kernel, next_output));
    }
  }

  MemoryTimeline take() { return builder_.take(); }

 private:
  static uint32_t kernel_at(std::span<const EventNotes::Note> notes, size_t note) {
    return note < notes.size() ? notes[note].kernel : kNobody;
  }

  std::optional<Value> next_owner(uint32_t node, uint32_t& output) const {
    const auto count = static_cast<uint32_t>(graph_.nodes()[node].outputs.size());
    while (output < count && !owns_memory(graph_, layouts_, {node, output})) ++output;
    if (output == count) return std::nullopt;
    return Value{node, output++};
  }

  void allocate(const LedgerEvent& event, uint32_t kernel, std::optional<Value> value) {
    const uint32_t tensor =
        value ? builder_.tensor_of(*value)
              : builder_.scratch_of(kernel == kNobody ? 0 : kernel, event.name, event.change);
    live_[event.data] = {tensor, value};
    follow(value, kernel, event.change);
    builder_.add({.tensor = tensor,
                  .is_allocation = true,
                  .kernel = kernel,
                  .live = event.live,
                  .predicted_live = predicted_live_});
  }

  void release(const LedgerEvent& event, uint32_t kernel) {
    const auto found = live_.find(event.data);
    if (found == live_.end()) return;  // allocated in an earlier run
    const auto [tensor, value] = found->second;
    follow(value, kernel, event.change);
    builder_.add({.tensor = tensor,
                  .is_allocation = false,
                  .kernel = kernel,
                  .live = event.live,
                  .predicted_live = predicted_live_});
    live_.erase(found);
  }

  // Advances to the prediction of this event; an unpredicted one leaves the predicted level as is.
  void follow(std::optional<Value> value, uint32_t kernel, Bytes change) {
    constexpr size_t kNearby = 64;  // releases after one kernel may be in another order
    const size_t end = std::min(predicted_.size(), next_ + kNearby);
    for (size_t i = next_; i < end; ++i) {
      const PredictedEvent& each = predicted_[i];
      if (each.value != value || (!value && each.kernel != kernel) ||
          (each.change.count < 0) != (change.count < 0))
        continue;
      predicted_live_ = each.live;
      next_ = i + 1;
      return;
    }
  }

  const Graph& graph_;
  const std::vector<Layout>& layouts_;
  std::vector<PredictedEvent> predicted_;
  size_t next_ = 0;
  Bytes predicted_live_;
  Builder builder_;
  struct Held {
    uint32_t tensor;
    std::optional<Value> value;
  };
  std::unordered_map<const void*, Held> live_;
};

MemoryTimeline eager_prediction(const Executable& executable, const Device& device, size_t stages) {
  const Graph& graph = executable.graph();
  Builder builder(graph);
  std::unordered_map<uint32_t, uint32_t> tensors;  // by Graph::index
  uint32_t scratch = 0;                            // of the current kernel
  for (const PredictedEvent& event : predicted_events(executable, device, stages)) {
    const bool is_allocation = event.change.count > 0;
    uint32_t tensor = scratch;
    if (event.value && is_allocation) {
      tensor = tensors[graph.index(*event.value)] = builder.tensor_of(*event.value);
    } else if (event.value) {
      tensor = tensors.at(graph.index(*event.value));
    } else if (is_allocation) {
      const Op op = graph.nodes()[event.kernel].op;
      tensor = scratch =
          builder.scratch_of(event.kernel, fmt::format("{} scratch", info(op).name), event.change);
    }
    builder.add({.tensor = tensor,
                 .is_allocation = is_allocation,
                 .kernel = event.kernel,
                 .live = event.live,
                 .predicted_live = event.live});
  }
  return builder.take();
}

// The timeline of the arena's blocks, from the first to the last kernel that uses each.
MemoryTimeline planned_timeline(const Executable& executable, size_t stages) {
  const Graph& graph = executable.graph();
  const Plan& plan = *executable.plan();
  Builder builder(graph, &plan);
  Bytes live = plan.inputs;
  std::vector<std::vector<uint32_t>> begins(plan.kernels.size()), ends(plan.kernels.size() + 1);
  for (uint32_t block = 0; block < plan.blocks.size(); ++block) {
    begins[plan.blocks[block].first].push_back(block);
    ends[std::min<size_t>(plan.blocks[block].last, plan.kernels.size())].push_back(block);
  }
  std::unordered_map<uint32_t, uint32_t> tensors;  // of blocks
  for (uint32_t number = 0; number < end_of(plan.stages, stages); ++number) {
    const PlannedKernel& kernel = plan.kernels[number];
    for (const uint32_t block : begins[number]) {
      const ArenaBlock& placed = plan.blocks[block];
      const auto written = std::ranges::find_if(kernel.group.writes, [&](Value storage) {
        return plan.offsets[graph.index(storage)] == placed.offset &&
               byte_size(graph.type(storage)) == placed.bytes;
      });
      tensors[block] = written != kernel.group.writes.end()
                           ? builder.tensor_of(*written)
                           : builder.scratch_of(kernel.group.node, "scratch", placed.bytes);
      live += placed.bytes;
      builder.add({.tensor = tensors[block],
                   .is_allocation = true,
                   .kernel = number,
                   .live = live,
                   .predicted_live = live});
    }
    for (const uint32_t block : ends[number]) {
      live -= plan.blocks[block].bytes;
      builder.add({.tensor = tensors[block],
                   .is_allocation = false,
                   .kernel = number,
                   .live = live,
                   .predicted_live = live});
    }
  }
  return builder.take();
}

// From cost/memory and not from the events, which are compared with it. A plan's arena is allocated
// as a whole at the beginning.
Bytes predicted_peak(const Executable& executable, size_t stages) {
  if (executable.plan()) return executable.predicted_peak();
  const std::vector<Bytes>& live = executable.profile()->live;
  const uint32_t end = end_of(executable.schedule()->stages, stages);
  return std::ranges::max(std::span(live).first(end));
}

void run_stages(Executable& executable, Device& device, size_t stages) {
  const size_t all = executable.graph().stages().size();
  if (stages >= all)
    executable.run();
  else
    for (size_t stage = 0; stage < stages; ++stage) executable.run_stage(stage);
  device.synchronize();
}

}  // namespace

MemoryTimeline predict_memory(const Executable& executable, const Device& device, size_t stages) {
  MemoryTimeline timeline = executable.plan() ? planned_timeline(executable, stages)
                                              : eager_prediction(executable, device, stages);
  timeline.predicted_peak = predicted_peak(executable, stages);
  return timeline;
}

MemoryTimeline measure_memory(Executable& executable, Device& device, size_t stages) {
  Ledger& ledger = device.ledger();
  MemoryTimeline timeline;
  if (executable.plan()) {
    run_stages(executable, device, stages);
    timeline = planned_timeline(executable, stages);
  } else {
    EventNotes notes(ledger);
    const size_t first = ledger.events().size();
    {
      ledger.keep_events(true);
      executable.set_observer(&notes);
      const AtEnd detach([&] {
        executable.set_observer(nullptr);
        ledger.keep_events(false);
      });
      run_stages(executable, device, stages);
    }
    for (EventNotes::Note& note : notes.notes) {
      note.before -= first;
      note.after -= first;
    }
    EagerWalk walk(executable, device, stages);
    walk.walk(std::span(ledger.events()).subspan(first), notes.notes);
    timeline = walk.take();
  }
  timeline.predicted_peak = predicted_peak(executable, stages);
  return timeline;
}

}  // namespace ridgeline
