// Runs a plan: fused kernels and library calls over one arena; on a GPU as one launch graph.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plan/plan.h"
#include "plan/resident.h"
#include "runtime/eager_executor.h"
#include "runtime/group_call.h"

namespace ridgeline {

class CompiledExecutor {
 public:
  // Compiles the kernels, and allocates inputs and arena. The graph, the plan and the device must
  // outlive the executor. Throws an unsupported error where generated code cannot be compiled.
  CompiledExecutor(const Graph& graph, const Plan& plan, Device& device,
                   const ExecutorOptions& options = {});

  // An input to be filled through Device::upload before the first run.
  TensorView input(std::string_view name) const;

  // Runs one stage; stages must run in order, and the first one begins a new run. The second run of
  // a stage is recorded where the device supports it, and later ones replay the recording.
  void run_stage(size_t stage);
  void run_all();
  // Repeats run_all(), with a single launch if the kernel is persistent.
  void run_times(int times);

  // An output of the last run, contiguous or not. Throws a usage error if there is none.
  TensorView output(std::string_view name) const;

  // Poisons every result before its kernel runs, from now on; for verification runs.
  void set_poison(bool poison);

  // Called for every kernel from now on; recordings are replayed only if the observer takes them.
  // Null: no observer.
  void set_observer(KernelObserver* observer);

  // Whether the beginning of the plan runs as one persistent kernel (plan/resident.h), unless
  // kernels are observed or results are poisoned.
  bool is_resident() const { return resident_ != nullptr; }
  int64_t launches() const {
    const auto kernels = static_cast<int64_t>(plan_.kernels.size());
    return is_resident() ? kernels - resident_plan_->kernels + 1 : kernels;
  }
  const std::string& why_not_resident() const { return not_resident_; }

  // The collectives of the last run.
  std::vector<CollectiveRun> collectives() const { return collectives_.runs(); }

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
    int runs = 0;
    std::unique_ptr<RecordedWork> work;
  };

  TensorView view(Value value) const;
  void* address(Value storage) const;
  void run_kernel(size_t number);
  void start_collective(size_t number);
  void run_kernels(size_t begin, size_t end);
  void run_recorded(Recording& recording, size_t begin, size_t end);

  const Graph& graph_;
  const Plan& plan_;
  Device& device_;
  const bool records_;
  std::string not_resident_;
  bool poison_ = false;
  KernelObserver* observer_ = nullptr;
  std::vector<Allocation> inputs_;   // by Graph::index
  std::vector<void*> bound_;         // by Graph::index: the caller's memory
  std::vector<uint64_t> constants_;  // by Graph::index: the scalar in its own dtype
  Allocation arena_;
  std::vector<Call> calls_;
  Collectives collectives_;
  std::optional<ResidentPlan> resident_plan_;
  std::unique_ptr<ResidentWork> resident_;  // null: every kernel is launched separately
  std::vector<Recording> recordings_;       // one per stage, then one for all
  size_t stages_run_ = 0;
};

}  // namespace ridgeline
