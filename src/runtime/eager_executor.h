// Runs a graph node by node: results are allocated when computed and freed at last use.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/schedule.h"
#include "runtime/collectives.h"
#include "runtime/device.h"
#include "runtime/kernel_observer.h"

namespace ridgeline {

struct ExecutorOptions {
  // By Graph::index of storages: the caller's memory; null, or an empty list: the executor
  // allocates.
  std::vector<void*> bound = {};
  bool record = true;  // compiled executors record repeated work, where the device can
  Communicator* communicator = nullptr;  // of the graph's collectives; outlives the executor
};

class EagerExecutor {
 public:
  // Allocates the inputs. The graph, the schedule and the device must outlive the executor.
  EagerExecutor(const Graph& graph, const Schedule& schedule, Device& device,
                const ExecutorOptions& options = {});

  // An input to be filled through Device::upload before the first run.
  TensorView input(std::string_view name) const;

  // Runs one stage. The first stage begins a new run and releases the results of the last one.
  // After an error everything but the inputs is released, and the executor can run again.
  void run_stage(size_t stage);
  void run_all();

  // An output of the last run, contiguous or not. Throws a usage error if there is none.
  TensorView output(std::string_view name) const;

  // Poisons every result before its kernel runs, from now on; for verification runs.
  void set_poison(bool poison) { poison_ = poison; }

  // Called for every kernel from now on; null: none. Must outlive the runs that it observes.
  void set_observer(KernelObserver* observer) { observer_ = observer; }

  // Frees everything but the inputs.
  void release();

  // The collectives of the last run.
  std::vector<CollectiveRun> collectives() const { return collectives_.runs(); }

 private:
  TensorView view(Value value) const;
  void* address(uint32_t storage) const;
  void allocate(uint32_t storage, const TensorType& type);
  void run_stages(size_t begin, size_t end);
  void run_step(const Step& step);
  void run_observed(uint32_t node);  // with inputs_ and outputs_
  void start_collective(const Step& step);

  const Graph& graph_;
  const Schedule& schedule_;
  Device& device_;
  bool poison_ = false;
  KernelObserver* observer_ = nullptr;
  std::vector<Allocation> storage_;           // by Graph::index; empty for views and released ones
  std::vector<void*> bound_;                  // by Graph::index: the caller's memory
  std::vector<uint64_t> constants_;           // by Graph::index: the scalar in its own dtype
  std::vector<std::string> names_;            // by Graph::index, for the ledger
  std::vector<TensorView> inputs_, outputs_;  // of the current step
  Collectives collectives_;                   // declared after the memory that they use
};

}  // namespace ridgeline
