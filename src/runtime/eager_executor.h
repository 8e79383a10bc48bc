// Runs a graph node by node: results are allocated when computed and freed at last use.
#pragma once

#include <string>
#include <vector>

#include "graph/schedule.h"
#include "runtime/executor.h"

namespace ridgeline {

class EagerExecutor : public Executor {
 public:
  // Allocates the inputs. The graph, the schedule and the device must outlive the executor.
  EagerExecutor(const Graph& graph, const Schedule& schedule, Device& device,
                const ExecutorOptions& options = {});

  // The first stage releases the results of the last run. After an error everything but the inputs
  // is released, and the executor can run again.
  void run_stage(size_t stage) override;
  void run_all() override;

  // Frees everything but the inputs.
  void release();

 private:
  void* address(Value storage) const override;
  bool is_computed(Value output) const override;
  void allocate(uint32_t storage, const TensorType& type);
  void run_stages(size_t begin, size_t end);
  void run_step(const Step& step);
  void run_observed(uint32_t node);  // with inputs_ and outputs_
  void start_collective(const Step& step);

  const Schedule& schedule_;
  std::vector<std::string> names_;            // by Graph::index, for the ledger
  std::vector<TensorView> inputs_, outputs_;  // of the current step
};

}  // namespace ridgeline
