#include "runtime/compiled_executor.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <utility>

namespace ridgeline {

// Compiles before it allocates, so that a failed compilation leaves no memory in use.
CompiledExecutor::CompiledExecutor(const Graph& graph, const Plan& plan, Device& device,
                                   const ExecutorOptions& options)
    : Executor(graph, plan.layouts, device, options),
      plan_(plan),
      records_(options.record && device.can_record() &&
               (options.communicator == nullptr || options.communicator->facts().is_queued)) {
  std::vector<const FusedKernel*> kernels;
  for (const PlannedKernel& kernel : plan_.kernels)
    if (kernel.group.kind != GroupKind::library) kernels.push_back(&kernel.group.kernel);
  std::vector<FusedProgram> programs = device_.compile(kernels);

  allocate_inputs();
  if (plan_.arena.count > 0) arena_ = device_.ledger().allocate(plan_.arena, "arena");

  // An operand is kept if no kernel of the plan writes it: it may be read before the previous
  // kernel ends. Not so for the first kernel of a stage: work of another graph may precede it and
  // write anything.
  std::vector<bool> is_written(graph_.value_count());
  for (const PlannedKernel& planned : plan_.kernels)
    for (Value storage : planned.group.writes) is_written[graph_.index(storage)] = true;
  const auto operand = [&](Value value) {
    TensorView seen = view(value);
    const Value storage = layouts_[graph_.index(value)].storage;
    const bool begins = std::ranges::any_of(
        plan_.stages, [&](const auto& stage) { return stage.begin == calls_.size(); });
    seen.is_kept =
        graph_.node(storage).op == Op::input && !is_written[graph_.index(storage)] && !begins;
    return seen;
  };

  size_t next = 0;
  std::vector<bool> is_begun(graph_.value_count());  // storages that a kernel has written to
  for (const PlannedKernel& planned : plan_.kernels) {
    const Group& group = planned.group;
    const bool is_library = group.kind == GroupKind::library;
    Call call{.group = GroupCall(graph_, group, is_library ? nullptr : std::move(programs[next++]),
                                 operand)};
    if (!is_library || !is_update(graph_.nodes()[group.node].op))
      for (Value storage : group.writes) {
        const uint32_t index = graph_.index(storage);
        if (!plan_.in_place[index] && !is_begun[index]) call.fresh.push_back(view(storage));
        is_begun[index] = true;
      }
    if (planned.scratch.count > 0)
      call.scratch = static_cast<char*>(arena_.data()) + planned.scratch_offset;
    calls_.push_back(std::move(call));
  }
  for (uint32_t number = 0; number < plan_.kernels.size(); ++number)
    if (plan_.kernels[number].is_collective)
      calls_[plan_.kernels[number].join].joins.push_back(number);
  recordings_.resize(plan_.stages.size() + 1);
  resident_plan_ = make_resident(graph_, plan_, not_resident_);
  if (resident_plan_)
    resident_ = device_.prepare_resident(
        graph_, plan_, *resident_plan_, [&](Value storage) { return address(storage); },
        not_resident_);
}

void* CompiledExecutor::address(Value storage) const {
  const uint32_t index = graph_.index(storage);
  if (bound_[index] != nullptr) return bound_[index];
  if (graph_.node(storage).op == Op::input) return storage_[index].data();
  return static_cast<char*>(arena_.data()) + plan_.offsets[index];
}

bool CompiledExecutor::is_computed(Value output) const {
  return stages_run_ > 0 && output.node < graph_.stages()[stages_run_ - 1].end;
}

void CompiledExecutor::start_collective(size_t number) {
  const uint32_t node = plan_.kernels[number].group.node;
  const GroupCall& call = calls_[number].group;
  collectives_.start(static_cast<uint32_t>(number), graph_.nodes()[node], graph_.name({node, 0}),
                     call.inputs()[0], call.outputs()[0]);
  if (plan_.kernels[number].join == number) collectives_.join(static_cast<uint32_t>(number));
}

void CompiledExecutor::run_kernel(size_t number) {
  Call& call = calls_[number];
  for (uint32_t collective : call.joins)
    if (collective != number) collectives_.join(collective);
  if (poison_)
    for (const TensorView& result : call.fresh) device_.poison(result);
  if (plan_.kernels[number].is_collective) return start_collective(number);
  if (!observer_) return call.group.run(device_, call.scratch);
  KernelRun run = call.group.seen(graph_, plan_.kernels[number].group);
  run.number = number;
  observer_->before(run);
  call.group.run(device_, call.scratch);
  observer_->after(run);
}

void CompiledExecutor::run_kernels(size_t begin, size_t end) try {
  if (begin == 0) collectives_.begin_run();
  std::deque<std::pair<uint32_t, size_t>> beside;  // side work: the kernel that joins it, its mark
  if (resident_ && begin == 0 && !poison_ && !observer_) {
    resident_(1);
    begin = resident_plan_->kernels;
  }
  for (size_t i = begin; i < end; ++i) {
    const PlannedKernel& kernel = plan_.kernels[i];
    if (kernel.on_side) {
      device_.begin_side();
      run_kernel(i);
      beside.emplace_back(kernel.join, device_.end_side());
      continue;
    }
    std::optional<size_t> awaited;
    for (; !beside.empty() && beside.front().first <= i; beside.pop_front())
      awaited = beside.front().second;
    if (awaited) device_.join_side(*awaited);
    run_kernel(i);
  }
  if (!beside.empty()) device_.join_side(beside.back().second);
  collectives_.join_all();
} catch (...) {
  collectives_.drop_all();
  throw;
}

// The first run is not recorded: it loads libraries, chooses algorithms and allocates scratch.
void CompiledExecutor::run_recorded(Recording& recording, size_t begin, size_t end) {
  if (observer_ && !observer_->takes_recordings()) return run_kernels(begin, end);
  const bool is_first = !std::exchange(recording.has_run, true);
  if (poison_ || !records_ || is_first) return run_kernels(begin, end);
  if (!recording.work) {
    if (observer_) observer_->begin_recording();
    recording.work = device_.record([&] { run_kernels(begin, end); });
    if (observer_) observer_->end_recording();
  }
  if (observer_) observer_->before_start();
  recording.work();
  if (observer_) observer_->after_start();
}

std::vector<double> CompiledExecutor::kernel_ms() {
  constexpr int kTogether = 10;
  constexpr int kRepetitions = 3;
  // A rank cannot repeat a collective alone.
  if (std::ranges::any_of(plan_.kernels, &PlannedKernel::is_collective)) return {};
  std::vector<double> times;
  for (size_t i = 0; i < calls_.size(); ++i) {
    const auto recorded = device_.record([&] {
      for (int repeat = 0; repeat < kTogether; ++repeat) run_kernel(i);
    });
    if (!recorded) return {};
    recorded();
    double best = std::numeric_limits<double>::infinity();
    for (int repeat = 0; repeat < kRepetitions; ++repeat)
      best = std::min(best, device_.time_ms([&] { recorded(); }) / kTogether);
    times.push_back(best);
  }
  return times;
}

void CompiledExecutor::run_stage(size_t stage) {
  stages_run_ = stage;
  run_recorded(recordings_[stage], plan_.stages[stage].begin, plan_.stages[stage].end);
  stages_run_ = stage + 1;
}

void CompiledExecutor::run_times(int times) {
  if (resident_ && resident_plan_->repeats && !poison_ && !observer_) {
    resident_(times);
    stages_run_ = plan_.stages.size();
    return;
  }
  Executor::run_times(times);
}

void CompiledExecutor::run_all() {
  stages_run_ = 0;
  run_recorded(recordings_.back(), 0, plan_.kernels.size());
  stages_run_ = plan_.stages.size();
}

}  // namespace ridgeline
