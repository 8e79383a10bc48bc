// One attention workload made ready to run: eagerly, or planned and compiled.
//
//   AttentionExecutable executable(workload, device);   // nothing is allocated yet
//   executable.prepare(device);
//   executable.run_stage(0);                            // forward
//   executable.run_stage(1);                            // backward
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "cost/cost.h"
#include "cost/memory.h"
#include "plan/plan.h"
#include "runtime/compiled_executor.h"
#include "runtime/eager_executor.h"
#include "studies/attention_workload.h"

namespace ridgeline {

class AttentionExecutable {
 public:
  // Traces, and for compiled ones applies the passes and plans.
  AttentionExecutable(const AttentionWorkload& workload, const Device& device);
  AttentionExecutable(const AttentionExecutable&) = delete;
  AttentionExecutable& operator=(const AttentionExecutable&) = delete;

  const Graph& graph() const { return graph_; }
  // Of what will run: once prepare() had to fall back, eagerly.
  Bytes predicted_peak() const;
  Bytes predicted_before_backward() const;
  const MemoryProfile* profile() const { return profile_ ? &*profile_ : nullptr; }  // if eager
  Cost cost(size_t stage) const;                                                    // of what runs
  // Of a compiled one: what was recognised, every kernel and why, memory, refusals.
  std::string explain(const Device& device) const;

  // Compiles, and allocates the inputs; once more: from the beginning. The device must outlive
  // this.
  void prepare(Device& device);
  void release();  // what prepare() allocated
  TensorView input(std::string_view name) const;
  TensorView output(std::string_view name) const;  // of the last run
  void set_poison(bool poison);
  void set_observer(KernelObserver* observer);  // of every kernel; null: nobody
  void run_stage(size_t stage);

  bool is_compiled() const { return plan_.has_value(); }
  double compile_seconds() const;  // tracing, passes, planning and code generation
  int64_t launches() const;
  std::string fallback() const;  // why a compiled one runs eagerly; empty: it does not

 private:
  void plan_eagerly(const Device& device);

  Graph graph_;
  std::string recognised_;            // what became of the formula
  std::optional<Schedule> schedule_;  // eager, or what a compiled one fell back to
  std::optional<MemoryProfile> profile_;
  std::optional<Plan> plan_;  // compiled
  std::optional<EagerExecutor> eager_;
  std::optional<CompiledExecutor> compiled_;
  double traced_seconds_ = 0;
  double compile_seconds_ = 0;  // of the first prepare()
};

}  // namespace ridgeline
