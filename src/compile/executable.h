// The front door: a graph in, something that runs out.
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
// It prints nothing: what a caller may want to tell its user goes to CompileOptions::message.
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
#include "runtime/eager_executor.h"
#include "runtime/nvtx.h"

namespace ridgeline {

// The caller's memory for inputs and outputs, by their names: contiguous, of the type that the
// graph says, and there for as long as the executable runs.
using Bindings = std::map<std::string, void*, std::less<>>;

class Executable {
 public:
  // Traces, applies the passes and plans. The device must outlive this.
  Executable(const Trace& trace, Device& device, CompileOptions options = {});
  Executable(const Executable&) = delete;
  Executable& operator=(const Executable&) = delete;

  const Graph& graph() const { return graph_; }
  // One of them: eager ones have a schedule and its memory, fused ones a plan.
  const Schedule* schedule() const { return schedule_ ? &*schedule_ : nullptr; }
  const MemoryProfile* profile() const { return profile_ ? &*profile_ : nullptr; }
  const Plan* plan() const { return schedule_ ? nullptr : &*plan_; }

  // Of what will run: once prepare() had to fall back, eagerly.
  Bytes predicted_peak() const;
  Bytes predicted_after(size_t stage) const;  // what lives once a stage is done
  int64_t launches() const;
  int64_t eager_launches() const;                    // of the same graph without fusion
  size_t recomputed() const { return recomputed_; }  // results that are computed again to fit
  const CheckpointReport& checkpoint() const { return checkpoint_; }
  std::vector<Cost> kernel_costs() const;  // one after the other
  std::vector<Cost> stage_costs() const;
  // Of the last run: what ranks did together, and when.
  std::vector<CollectiveRun> collectives() const;
  // Of a fused one: what was recognised, every kernel and why, memory, refusals. With `timed` also
  // how long each takes, if it was prepared and the device can tell.
  std::string explain(bool timed = false);

  // Compiles kernels and allocates what is not bound; once more: from the beginning. A fused
  // executable whose kernels cannot be compiled here runs eagerly from now on.
  void prepare(const Bindings& bindings = {});
  void release();  // what prepare() allocated
  // Tensors of the caller's graph, also those that passes keep in one input with others.
  TensorView input(std::string_view name) const;
  bool has_input(std::string_view name) const;
  // What this rank has of an input, or of a parameter in one: all of it, or what lies in its shard.
  struct Held {
    TensorView view;
    int64_t begin = 0, count = 0;  // elements of the tensor that `view` shows, as one axis
  };
  Held held(std::string_view name) const;
  TensorView output(std::string_view name) const;  // of the last run
  bool has_output(std::string_view name) const;

  void run();
  // So many runs of a graph that goes on from what it stored, such as one that decodes a token.
  void run_times(int times);
  void run_stage(size_t stage);  // in order
  // From now on every result is poisoned before its kernel runs; for runs that are verified.
  void set_poison(bool poison);
  void set_observer(KernelObserver* observer);  // of every kernel from now on; null: nobody

  // Whether what was prepared begins with a kernel that stays on the GPU (plan/resident.h), and why
  // not.
  bool is_resident() const { return compiled_ && compiled_->is_resident(); }
  std::string why_not_resident() const {
    return compiled_ ? compiled_->why_not_resident() : std::string();
  }
  const std::string& fallback() const { return fallback_; }  // why it runs eagerly; empty: as asked
  // Tracing, passes, planning and code generation, of the first time.
  double compile_seconds() const { return traced_seconds_ + kernels_seconds_; }

 private:
  struct Part {
    std::string input;
    int64_t begin = 0, end = 0;  // rows
    int ranks = 1;               // that have a shard of the input each
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
  std::optional<EagerExecutor> eager_;
  std::optional<CompiledExecutor> compiled_;
  std::unique_ptr<NvtxScopes> nvtx_;  // null: no outside profiler
  std::string fallback_;
  double traced_seconds_ = 0, kernels_seconds_ = 0;
};

}  // namespace ridgeline
