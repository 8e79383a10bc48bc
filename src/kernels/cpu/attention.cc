// Runs attention nodes by the flash kernels.
#include <optional>

#include "kernels/cpu/flash.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/score_tiles.h"

namespace ridgeline {
namespace {

// The node's score function, if it has one, with operands from input `first` on.
std::optional<ScoreTiles> function_of(const KernelCall& call, size_t first, size_t first_sum,
                                      const CpuContext& context) {
  const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
  if (spec.function == nullptr) return std::nullopt;
  return ScoreTiles(spec, std::span(call.inputs).subspan(first),
                    std::span(call.outputs).subspan(first_sum), context.isa);
}

const ScoreTiles* address(const std::optional<ScoreTiles>& function) {
  return function ? &*function : nullptr;
}

}  // namespace

void attention_kernel(const KernelCall& call, const CpuContext& context) {
  const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
  if (spec.cached) return cached_attention_kernel(call, context);
  const std::optional<ScoreTiles> function = function_of(call, 3, call.outputs.size(), context);
  flash_forward({.q = call.inputs[0],
                 .k = call.inputs[1],
                 .v = call.inputs[2],
                 .out = call.outputs[0],
                 .log_sum_exp = call.outputs[1],
                 .scale = static_cast<float>(spec.scale),
                 .mask = spec.mask,
                 .function = address(function)},
                context);
}

void attention_gradient_kernel(const KernelCall& call, const CpuContext& context) {
  const auto& spec = std::get<AttentionSpec>(call.node.attributes.detail);
  const std::optional<ScoreTiles> function = function_of(call, 6, 3, context);
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
                  .algorithm = spec.backward,
                  .function = address(function)},
                 context);
}

}  // namespace ridgeline
