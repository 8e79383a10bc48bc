#include "compile/executable.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "compile/generated_code.h"
#include "plan/recompute.h"
#include "runtime/eager_executor.h"
#include "runtime/epilogue_choice.h"
#include "runtime/scratch.h"

namespace ridgeline {
namespace {

// By Graph::index of storages: where the caller's memory is.
std::vector<void*> bound_storages(const Graph& graph, const std::vector<Layout>& layouts,
                                  const Bindings& bindings) {
  std::vector<void*> bound(graph.value_count());
  for (const auto& binding : bindings) {
    const std::string& name = binding.first;
    void* const data = binding.second;
    bool found = false;
    const auto bind = [&](Value value) {
      const Layout& layout = layouts[graph.index(value)];
      const Shape& shape = graph.type(value).shape;
      const bool is_whole = layout.offset == 0 && layout.strides == contiguous_strides(shape) &&
                            element_count(shape) == element_count(graph.type(layout.storage).shape);
      if (!is_whole)
        throw Error(
            ErrorKind::usage,
            fmt::format("'{}' is a view of another tensor and takes no memory of its own", name));
      void*& place = bound[graph.index(layout.storage)];
      if (place != nullptr && place != data)
        throw Error(ErrorKind::usage,
                    fmt::format("'{}' lies where another tensor is bound to other memory", name));
      place = data;
      found = true;
    };
    for (Value input : graph.inputs())
      if (graph.name(input) == name) bind(input);
    for (const Output& output : graph.outputs())
      if (output.name == name && !found) bind(output.value);
    if (!found) throw Error(ErrorKind::usage, fmt::format("the graph has no tensor '{}'", name));
  }
  return bound;
}

}  // namespace

Executable::Executable(const Trace& trace, Device& device, CompileOptions options)
    : device_(device), options_(std::move(options)) {
  const double start = monotonic_s();
  Lowered lowered = lower(trace, options_);
  graph_ = std::move(lowered.graph);
  recognised_ = std::move(lowered.flash);
  checkpoint_ = lowered.checkpoint;
  begin("plan");
  if (rungs().fuse)
    plan_fused();
  else
    plan_eagerly();
  find_parts();
  traced_seconds_ = monotonic_s() - start;
}

void Executable::plan_fused() {
  FittedPlan fitted = plan_within(graph_,
                                  {.scratch = scratch_of(device_),
                                   .epilogue = epilogue_chooser(device_),
                                   .product_kernel = product_kernel_chooser(device_),
                                   .update_products =
                                       [this](std::span<const ProductSize> products) {
                                         return device_.prefers_update_products(products);
                                       },
                                   .overlap = rungs().launch_graph && device_.can_record(),
                                   .early_updates = true},
                                  budget());
  if (fitted.graph) graph_ = std::move(*fitted.graph);
  plan_ = std::move(fitted.plan);
  recomputed_ = fitted.recomputed;
}

void Executable::plan_eagerly() {
  schedule_ = eager_schedule(graph_);
  profile_ = memory(graph_, *schedule_, scratch_of(device_));
}

void Executable::find_parts() {
  for (Value value : graph_.inputs()) {
    const InputInfo& input = graph_.input_info(value);
    const Shape& shape = graph_.type(value).shape;
    const int64_t rows = shape.rank() > 0 ? shape[0] : 1;
    if (input.parts.empty() || input.ranks > 1) parts_[input.name] = {input.name, 0, rows};
    int64_t begin = 0;
    for (const InputPart& part : input.parts) {
      parts_[tensor_name(input.role, part.parameter)] = {input.name, begin, begin + part.rows,
                                                         input.ranks};
      begin += part.rows;
    }
  }
}

void Executable::begin(std::string_view stage) const {
  if (options_.stage) options_.stage(stage);
}

Bytes Executable::budget() const {
  return options_.budget.value_or(device_.ledger().budget());
}

Bytes Executable::predicted_peak() const {
  return profile_ ? profile_->peak : plan_->peak();
}

Bytes Executable::predicted_after(size_t stage) const {
  return profile_ ? profile_->stage_end[stage] : plan_->peak();
}

int64_t Executable::launches() const {
  if (plan())
    return compiled_ ? compiled_->launches() : static_cast<int64_t>(plan_->kernels.size());
  return std::count_if(schedule_->steps.begin(), schedule_->steps.end(), [&](const Step& step) {
    return runs_kernel(graph_, schedule_->layouts, step.node);
  });
}

int64_t Executable::eager_launches() const {
  return plan() ? plan_->eager_launches : launches();
}

std::vector<Cost> Executable::kernel_costs() const {
  if (!plan()) return node_costs(graph_);
  std::vector<Cost> costs;
  for (const PlannedKernel& kernel : plan_->kernels) costs.push_back(kernel.cost);
  return costs;
}

std::vector<Cost> Executable::stage_costs() const {
  std::vector<Cost> costs;
  for (const Stage& stage : graph_.stages()) costs.push_back(stage_cost(graph_, stage));
  if (!plan()) return costs;
  for (Cost& cost : costs) cost = {.macs = cost.macs};  // products stay what they are
  for (const PlannedKernel& kernel : plan_->kernels) {
    Cost& cost = costs[kernel.group.stage];
    cost.flops += kernel.cost.flops;
    cost.bytes += kernel.cost.bytes;
  }
  return costs;
}

std::vector<CollectiveRun> Executable::collectives() const {
  return executor_->collectives();
}

std::string Executable::what_was_recognised() const {
  constexpr size_t kMostNamed = 4;
  std::string text;
  if (recognised_.found.size() > kMostNamed)
    text = fmt::format("flash: {} attentions became one node each\n", recognised_.found.size());
  else
    for (const std::string& node : recognised_.found)
      text += fmt::format("flash: '{}' became one attention node\n", node);
  for (const FlashRefusal& refusal : recognised_.refusals)
    text += fmt::format("flash: '{}' stayed as it was: {}\n", refusal.node, refusal.reason);
  if (checkpoint_.runs > 0)
    text +=
        fmt::format("checkpoint: {} nodes of {} runs of {} blocks are computed again in backward\n",
                    checkpoint_.recomputed, checkpoint_.runs, options_.checkpoint_blocks);
  if (recomputed_ > 0)
    text += fmt::format("recompute: {} results are computed again in backward {} {}\n", recomputed_,
                        plan_->peak() <= budget() ? "to fit" : "and yet it does not fit",
                        to_string(budget()));
  return text;
}

std::string Executable::explain(bool timed) {
  if (!plan_)
    throw Error(ErrorKind::usage, "what runs one kernel per operation has no plan to explain",
                "choose a mode that fuses, such as compiled");
  std::vector<double> times;
  if (timed && compiled_) times = compiled_->kernel_ms();
  const std::string persistent =
      is_resident()
          ? fmt::format(
                "{} kernels are launched, not {}: the first ones run as one persistent kernel\n",
                launches(), plan_->kernels.size())
          : std::string();
  return what_was_recognised() + persistent + ridgeline::explain(graph_, *plan_, times) +
         generated_functions(*plan_, device_);
}

void Executable::prepare(const Bindings& bindings) {
  release();
  std::string why_not;
  nvtx_ = NvtxScopes::open(why_not);
  if (!why_not.empty() && options_.message) options_.message(why_not);
  if (plan()) {
    begin("kernels");
    const double start = monotonic_s();
    try {
      auto compiled = std::make_unique<CompiledExecutor>(
          graph_, *plan_, device_,
          ExecutorOptions{.bound = bound_storages(graph_, plan_->layouts, bindings),
                          .record = rungs().launch_graph,
                          .communicator = options_.communicator});
      compiled_ = compiled.get();
      executor_ = std::move(compiled);
      if (kernels_seconds_ == 0) kernels_seconds_ = monotonic_s() - start;
      set_observer(nullptr);
      return;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      fallback_ = error.what();
      if (options_.message) options_.message("compiled falls back to eager: " + fallback_);
      plan_eagerly();
    }
  }
  executor_ = std::make_unique<EagerExecutor>(
      graph_, *schedule_, device_,
      ExecutorOptions{.bound = bound_storages(graph_, schedule_->layouts, bindings),
                      .communicator = options_.communicator});
  set_observer(nullptr);
}

void Executable::release() {
  compiled_ = nullptr;
  executor_.reset();
}

const Executable::Part& Executable::part(std::string_view name) const {
  const auto found = parts_.find(std::string(name));
  if (found == parts_.end())
    throw Error(ErrorKind::usage, fmt::format("the graph has no input '{}'", name));
  return found->second;
}

Executable::Held Executable::held(std::string_view name) const {
  const Part& of = part(name);
  if (of.ranks == 1) {
    const TensorView view = input(name);
    return {view, 0, element_count(view.shape)};
  }
  TensorView view = executor_->input(of.input);
  const int64_t first = options_.communicator->rank() * view.shape[0];  // of the whole
  const int64_t begin = std::max(of.begin, first);
  const int64_t end = std::min(of.end, first + view.shape[0]);
  if (begin >= end) return {view, 0, 0};
  view.data = static_cast<char*>(view.data) + (begin - first) * info(view.dtype).size;
  view.shape[0] = end - begin;
  return {view, begin - of.begin, end - begin};
}

TensorView Executable::input(std::string_view name) const {
  const Part& part = this->part(name);
  if (part.ranks > 1)
    throw Error(
        ErrorKind::usage,
        fmt::format("'{}' is cut among {} ranks: ask what this one has of it", name, part.ranks));
  TensorView view = executor_->input(part.input);
  if (view.shape.rank() == 0) return view;
  view.data = static_cast<char*>(view.data) + part.begin * view.strides[0] * info(view.dtype).size;
  view.shape[0] = part.end - part.begin;
  return view;
}

bool Executable::has_input(std::string_view name) const {
  return parts_.contains(std::string(name));
}

TensorView Executable::output(std::string_view name) const {
  return executor_->output(name);
}

bool Executable::has_output(std::string_view name) const {
  const std::span<const Output> outputs = graph_.outputs();
  return std::any_of(outputs.begin(), outputs.end(),
                     [&](const Output& output) { return output.name == name; });
}

void Executable::run() {
  executor_->run_all();
  if (nvtx_) nvtx_->close();
}

void Executable::run_times(int times) {
  executor_->run_times(times);
  if (nvtx_) nvtx_->close();
}

void Executable::run_stage(size_t stage) {
  executor_->run_stage(stage);
  if (nvtx_) nvtx_->close();
}

void Executable::set_poison(bool poison) {
  executor_->set_poison(poison);
}

void Executable::set_observer(KernelObserver* observer) {
  if (nvtx_) {
    nvtx_->set_next(observer);
    observer = nvtx_.get();
  }
  executor_->set_observer(observer);
}

}  // namespace ridgeline
