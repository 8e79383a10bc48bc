// The main entry point: compiles a graph into something that runs.
//
//   const Trace trace = [&](const Rewrite& forward) {
//     return attention_training_graph(config, AttentionForm::plain, forward);
//   };
//   Executable executable(trace, device, {.mode = Mode::compiled});  // nothing is allocated yet
//   executable.prepare();                                              // kernels and inputs
//   device.upload(executable.input("q"), q.data());
//   executable.run();                                                  // or stage by stage
//   device.download(executable.output("d_q"), d_q.data());
//
// It prints nothing: messages for the user go to CompileOptions::message.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compile/lower.h"
#include "cost/cost.h"
#include "cost/memory.h"
#include "plan/plan.h"
#include "runtime/compiled_executor.h"
#include "runtime/nvtx.h"

namespace ridgeline {

// The caller's memory for inputs and outputs, by their names: contiguous, of the type in the graph,
// and valid for as long as the executable runs.
using Bindings = std::map<std::string, void*, std::less<>>;

class Executable {
 public:
  // Traces, applies the passes and plans. The device must outlive this.
  Executable(const Trace& trace, Device& device, CompileOptions options = {});
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  const Graph& graph() const { return graph_; }
  // Eager executables have a schedule and its memory profile, fused ones a plan.
  const Schedule* schedule() const { return schedule_ ? &*schedule_ : nullptr; }
  const MemoryProfile* profile() const { return profile_ ? &*profile_ : nullptr; }
  const Plan* plan() const { return schedule_ ? nullptr : &*plan_; }

  // These describe what will run: the eager schedule, once prepare() has fallen back to it.
  Bytes predicted_peak() const;
  Bytes predicted_after(size_t stage) const;  // live bytes once a stage is done
  int64_t launches() const;
  int64_t eager_launches() const;                    // of the same graph without fusion
  size_t recomputed() const { return recomputed_; }  // results recomputed to fit the budget
  const CheckpointReport& checkpoint() const { return checkpoint_; }
  std::vector<Cost> kernel_costs() const;  // in run order
  std::vector<Cost> stage_costs() const;
  // The collectives of the last run, with their times.
  std::vector<CollectiveRun> collectives() const;
  // For fused executables: recognised patterns, every kernel and why, memory, refusals. With
  // `timed` also the time of each kernel, if it was prepared and the device can measure it.
  std::string explain(bool timed = false);

  // Compiles kernels and allocates what is not bound; a second call starts over. A fused executable
  // whose kernels cannot be compiled here runs eagerly from then on.
  void prepare(const Bindings& bindings = {});
  void release();  // what prepare() allocated
  // Tensors of the caller's graph, including those that passes merged into one input.
  TensorView input(std::string_view name) const;
  bool has_input(std::string_view name) const;
  // The part of an input, or of a parameter in one, that this rank holds: all of it, or its shard.
  struct Held {
    TensorView view;
    int64_t begin = 0, count = 0;  // elements of the tensor that `view` shows, as one axis
  };
  Held held(std::string_view name) const;
  TensorView output(std::string_view name) const;  // of the last run
  bool has_output(std::string_view name) const;

  void run();
  // Repeated runs of a graph that continues from its stored state, such as one that decodes a
  // token.
  void run_times(int times);
  void run_stage(size_t stage);  // in order
  // Poisons every result before its kernel runs, from now on; for verification runs.
  void set_poison(bool poison);
  void set_observer(KernelObserver* observer);  // of every kernel from now on; null: none

  // Whether the prepared plan begins with a persistent kernel (plan/resident.h), and why not.
  bool is_resident() const { return compiled_ && compiled_->is_resident(); }
  std::string why_not_resident() const {
    return compiled_ ? compiled_->why_not_resident() : std::string();
  }
  const std::string& fallback() const { return fallback_; }  // why it runs eagerly, if it does
  // Tracing, passes, planning and code generation, when first done.
  double compile_seconds() const { return traced_seconds_ + kernels_seconds_; }

 private:
  struct Part {
    std::string input;
    int64_t begin = 0, end = 0;  // rows
    int ranks = 1;               // each with a shard of the input
  };

  void plan_fused();
  void plan_eagerly();
  void find_parts();
  const Part& part(std::string_view name) const;
  void begin(std::string_view stage) const;
  Bytes budget() const;
  const ModeInfo& rungs() const { return info(options_.mode); }
  std::string what_was_recognised() const;

  Device& device_;
  CompileOptions options_;
  Graph graph_;
  FlashReport recognised_;
  CheckpointReport checkpoint_;
  std::unordered_map<std::string, Part> parts_;
  std::optional<Schedule> schedule_;
  std::optional<MemoryProfile> profile_;
  std::optional<Plan> plan_;
  size_t recomputed_ = 0;
  std::unique_ptr<Executor> executor_;
  CompiledExecutor* compiled_ = nullptr;  // the executor, if it runs the plan
  std::unique_ptr<NvtxScopes> nvtx_;      // null: no external profiler
  std::string fallback_;
  double traced_seconds_ = 0, kernels_seconds_ = 0;
};

}  // namespace ridgeline
