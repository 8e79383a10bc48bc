// Attention nodes of a graph, served by the flash kernels.
#include "kernels/cpu/flash.h"
#include "kernels/cpu/kernels.h"

namespace ridgeline {

void attention_kernel(const KernelCall& call, const CpuContext& context) {
  const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
  flash_forward({.q = call.inputs[0],
                 .k = call.inputs[1],
                 .v = call.inputs[2],
                 .out = call.outputs[0],
                 .log_sum_exp = call.outputs[1],
                 .scale = static_cast<float>(spec.scale),
                 .mask = spec.mask},
                context);
}

void attention_gradient_kernel(const KernelCall& call, const CpuContext& context) {
  const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
  flash_backward({.q = call.inputs[0],
                  .k = call.inputs[1],
                  .v = call.inputs[2],
                  .out = call.inputs[3],
                  .log_sum_exp = call.inputs[4],
                  .d_out = call.inputs[5],
                  .d_q = call.outputs[0],
                  .d_k = call.outputs[1],
                  .d_v = call.outputs[2],
                  .scale = static_cast<float>(spec.scale),
                  .mask = spec.mask,
                  .algorithm = spec.backward},
                 context);
}

}  // namespace ridgeline
