// Runs a plan: fused kernels and library calls over one arena; on a GPU as one launch graph.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "plan/resident.h"
#include "runtime/executor.h"
#include "runtime/group_call.h"

namespace ridgeline {

class CompiledExecutor : public Executor {
 public:
  // Compiles the kernels, and allocates inputs and arena. The graph, the plan and the device must
  // outlive the executor. Throws an unsupported error where generated code cannot be compiled.
  CompiledExecutor(const Graph& graph, const Plan& plan, Device& device,
                   const ExecutorOptions& options = {});

  // The second run of a stage is recorded where the device supports it, or the first one after it
  // that can be: not with poisoned results, nor with an observer that does not take recordings.
  // Later ones replay the recording.
  void run_stage(size_t stage) override;
  void run_all() override;
  // With a single launch if the kernel is persistent.
  void run_times(int times) override;

  // Whether the beginning of the plan runs as one persistent kernel (plan/resident.h), unless
  // kernels are observed or results are poisoned.
  bool is_resident() const { return resident_ != nullptr; }
  int64_t launches() const {
    const auto kernels = static_cast<int64_t>(plan_.kernels.size());
    return is_resident() ? kernels - resident_plan_->kernels + 1 : kernels;
  }
  const std::string& why_not_resident() const { return not_resident_; }

  // The time of every kernel of the plan, each repeated alone; empty where the device cannot
  // record. Invalidates the results.
  std::vector<double> kernel_ms();

 private:
  struct Call {
    GroupCall group;
    void* scratch = nullptr;
    std::vector<TensorView> fresh = {};  // results to poison
    std::vector<uint32_t> joins = {};    // collectives that it waits for
  };
  struct Recording {
    bool has_run = false;
    RecordedWork work;
  };

  void* address(Value storage) const override;
  bool is_computed(Value output) const override;
  void run_kernel(size_t number);
  void start_collective(size_t number);
  void run_kernels(size_t begin, size_t end);
  void run_recorded(Recording& recording, size_t begin, size_t end);

  const Plan& plan_;
  const bool records_;
  std::string not_resident_;
  Allocation arena_;
  std::vector<Call> calls_;
  std::optional<ResidentPlan> resident_plan_;
  ResidentWork resident_;              // empty: every kernel is launched separately
  std::vector<Recording> recordings_;  // one per stage, then one for all
  size_t stages_run_ = 0;
};

}  // namespace ridgeline
