#include "runtime/group_call.h"

#include "plan/update_products.h"

namespace ridgeline {

GroupCall::GroupCall(const Graph& graph, const Group& group, FusedProgram program,
                     const std::function<TensorView(Value)>& view)
    : updated_(group.products.empty() ? nullptr
                                      : std::make_unique<Node>(update_node(graph, group))),
      node_(updated_ ? updated_.get() : &graph.nodes()[group.node]),
      program_(std::move(program)) {
  if (group.kind != GroupKind::library) {
    for (const FusedOperand& input : group.kernel.inputs) {
      const bool has_memory = !input.is_position && !group.kernel.is_computed(input);
      input_addresses_.push_back(has_memory ? view(input.storage).data : nullptr);
    }
    if (const auto& product = group.kernel.product)
      for (Value storage : {product->left.storage, product->right.storage})
        input_addresses_.push_back(view(storage).data);
    for (const FusedResult& result : group.kernel.results)
      output_addresses_.push_back(view(result.to.storage).data);
    return;
  }
  for (Value input : node_->inputs) inputs_.push_back(view(input));
  if (!group.epilogue) {
    for (uint32_t output = 0; output < node_->outputs.size(); ++output)
      outputs_.push_back(view(group.into.value_or(Value{group.node, output})));
    return;
  }
  // Operands and results of an epilogue may have other axes than the product, but have the same
  // element order.
  const auto seen_as = [&](Value storage, int64_t offset, const Shape& shape) {
    const TensorView whole = view(storage);
    return TensorView{static_cast<char*>(whole.data) + offset * info(whole.dtype).size, whole.dtype,
                      shape, contiguous_strides(shape)};
  };
  const Epilogue& epilogue = *group.epilogue;
  const Shape& shape = node_->outputs[0].shape;
  product_ = {.a = inputs_[0],
              .b = inputs_[1],
              .out = seen_as(*group.into, 0, shape),
              .scale = epilogue.scale,
              .activation = epilogue.activation};
  if (epilogue.addend)
    product_->addend = seen_as(epilogue.addend->storage, epilogue.addend->offset, shape);
  if (epilogue.bias)
    product_->bias = seen_as(epilogue.bias->storage, epilogue.bias->offset, {shape.back()});
}

void GroupCall::run(Device& device, void* scratch) {
  if (program_) return program_(input_addresses_, output_addresses_, scratch);
  if (product_) return device.multiply(*product_);
  device.run(*node_, inputs_, outputs_, scratch);
}

KernelRun GroupCall::seen(const Graph& graph, const Group& group) const {
  return {.graph = graph,
          .node = group.node,
          .updated = updated_.get(),
          .inputs = inputs_,
          .outputs = outputs_,
          .product = product_ ? &*product_ : nullptr,
          .fused = program_ ? &group.kernel : nullptr,
          .input_addresses = input_addresses_,
          .output_addresses = output_addresses_};
}

}  // namespace ridgeline
