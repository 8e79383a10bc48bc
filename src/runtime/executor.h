// What the executors of a graph share: its inputs, constants and outputs, and what observes a run.
#pragma once

#include <string_view>
#include <vector>

#include "graph/layout.h"
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

class Executor {
 public:
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  // An input to be filled through Device::upload before the first run.
  TensorView input(std::string_view name) const;

  // Runs one stage; stages must run in order, and the first one begins a new run.
  virtual void run_stage(size_t stage) = 0;
  virtual void run_all() = 0;
  virtual void run_times(int times) {
    for (int i = 0; i < times; ++i) run_all();
  }

  // An output of the last run, contiguous or not. Throws a usage error if there is none.
  TensorView output(std::string_view name) const;

  // Poisons every result before its kernel runs, from now on; for verification runs.
  void set_poison(bool poison) { poison_ = poison; }

  // Called for every kernel from now on; null: none. Must outlive the runs that it observes.
  void set_observer(KernelObserver* observer) { observer_ = observer; }

  // The collectives of the last run.
  std::vector<CollectiveRun> collectives() const { return collectives_.runs(); }

 protected:
  // The graph, the layouts and the device must outlive the executor.
  Executor(const Graph& graph, const std::vector<Layout>& layouts, Device& device,
           const ExecutorOptions& options);

  void allocate_inputs();  // those that are not bound
  TensorView view(Value value) const;
  virtual void* address(Value storage) const = 0;
  virtual bool is_computed(Value output) const = 0;

  const Graph& graph_;
  const std::vector<Layout>& layouts_;
  Device& device_;
  bool poison_ = false;
  KernelObserver* observer_ = nullptr;
  std::vector<void*> bound_;         // by Graph::index: the caller's memory
  std::vector<uint64_t> constants_;  // by Graph::index: the scalar in its own dtype
  std::vector<Allocation> storage_;  // by Graph::index: what the executor allocated
  Collectives collectives_;          // joined when a run returns or throws
};

}  // namespace ridgeline
