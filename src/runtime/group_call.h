// One kernel of a plan bound to its memory, ready to run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "plan/fuse.h"
#include "runtime/device.h"
#include "runtime/kernel_observer.h"

namespace ridgeline {

class GroupCall {
 public:
  // `program`: of a generated kernel; empty for a library call. `view` returns the memory of
  // values. The graph must outlive the call.
  GroupCall(const Graph& graph, const Group& group, FusedProgram program,
            const std::function<TensorView(Value)>& view);

  void run(Device& device, void* scratch);
  std::span<const TensorView> inputs() const { return inputs_; }  // of a library call
  std::span<const TensorView> outputs() const { return outputs_; }
  // For an observer; `graph` and `group` are those of the constructor.
  KernelRun seen(const Graph& graph, const Group& group) const;

 private:
  std::unique_ptr<const Node> updated_;  // of an update with products: the node that runs
  const Node* node_;                     // updated_, or the graph's node
  FusedProgram program_;
  std::vector<void*> input_addresses_, output_addresses_;  // of a generated kernel
  std::vector<TensorView> inputs_, outputs_;               // of a library call
  std::optional<Product> product_;                         // of a product with an epilogue
};

}  // namespace ridgeline
