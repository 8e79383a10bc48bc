// Attention and its gradients through the C interface: checked parameters become one node.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "api/border.h"
#include "api/context.h"
#include "api/tensor_check.h"
#include "base/error.h"

namespace ridgeline {
namespace {

constexpr int64_t kWidestHead = 256;

Error invalid(std::string message, std::string next_step) {
  return {ErrorKind::usage, std::move(message), std::move(next_step)};
}

// One call, checked and ready to run: inputs and outputs in the order of the node.
struct Call {
  Node node;
  std::vector<ClaimedTensor> inputs, outputs;
  Bytes log_sum_exp;  // that goes to the workspace, as the caller does not want it
  Bytes scratch;      // of the device

  // Pieces of a workspace begin aligned.
  Bytes log_sum_exp_room() const {
    constexpr auto kAlignment = static_cast<int64_t>(kWorkspaceAlignment);
    return {(log_sum_exp.count + kAlignment - 1) / kAlignment * kAlignment};
  }
  Bytes workspace() const { return log_sum_exp_room() + scratch; }
};

template <class Params>
AttentionSpec spec_of(const Params& params, const Shape& q, const Shape& k) {
  AttentionSpec spec;
  const double size = std::fabs(params.scale);
  using Single = std::numeric_limits<float>;
  if (size != 0 && !(size >= Single::min() && size <= Single::max()))
    throw invalid(fmt::format("scale is {}", params.scale),
                  "use a number that fp32 holds, or 0 for 1 / sqrt(head_dim)");
  spec.scale = params.scale != 0 ? params.scale : 1 / std::sqrt(static_cast<double>(q[3]));
  switch (params.causal) {
    case RL_CAUSAL_NONE:
      break;
    case RL_CAUSAL_BOTTOM_RIGHT:
      spec.mask.alignment = AttentionMask::Alignment::bottom_right;
      [[fallthrough]];
    case RL_CAUSAL_TOP_LEFT:
      spec.mask.causal = true;
      break;
    default:
      throw invalid(fmt::format("causal is {}", params.causal), "use a value of rl_causal");
  }
  if (params.deterministic != 0 && params.deterministic != 1)
    throw invalid(fmt::format("deterministic is {}", params.deterministic), "use 0 or 1");
  if (params.window < 0)
    throw invalid(fmt::format("window is {}", params.window), "use 0 for no window");
  if (params.window > 0 && !spec.mask.causal)
    throw Error(ErrorKind::unsupported,
                fmt::format("window is {} without causal: a window on both sides is not served",
                            params.window),
                "set causal, or window to 0");
  spec.mask.window = std::min(params.window, q[2] + k[2]);  // as far as any window reaches
  return spec;
}

// q, k and v of both directions; gives the shape of log_sum_exp.
Shape expect_inputs(const ClaimedTensor& q, const ClaimedTensor& k, const ClaimedTensor& v) {
  expect_rank(q, 4, "[batch, heads, queries, head_dim]");
  expect_rank(k, 4, "[batch, key_heads, keys, head_dim]");
  const Shape &queries = q.view.shape, &keys = k.view.shape;
  if (queries[1] % keys[1] != 0)
    throw invalid(fmt::format("{} query heads cannot share {} key heads", queries[1], keys[1]),
                  "make the heads of q a multiple of those of k");
  if (queries[3] > kWidestHead)
    throw Error(ErrorKind::unsupported,
                fmt::format("head_dim is {}, and the kernels end at {}", queries[3], kWidestHead));
  const Shape expected = {queries[0], keys[1], keys[2], queries[3]};
  expect_type(k, q.view.dtype, expected);
  expect_type(v, q.view.dtype, expected);
  return {queries[0], queries[1], queries[2]};
}

std::vector<const ClaimedTensor*> addresses(const std::vector<ClaimedTensor>& tensors) {
  std::vector<const ClaimedTensor*> all;
  for (const ClaimedTensor& tensor : tensors) all.push_back(&tensor);
  return all;
}

std::vector<TensorView> views(const std::vector<ClaimedTensor>& tensors) {
  std::vector<TensorView> all;
  for (const ClaimedTensor& tensor : tensors) all.push_back(tensor.view);
  return all;
}

Call finish(Op op, const AttentionSpec& spec, Call call, const AttentionDevice& device) {
  expect_apart(addresses(call.outputs), addresses(call.inputs));
  call.node.op = op;
  call.node.attributes.detail = spec;
  std::vector<TensorType> types;
  for (const ClaimedTensor& input : call.inputs)
    types.push_back({input.view.dtype, input.view.shape});
  for (const ClaimedTensor& output : call.outputs)
    call.node.outputs.push_back({output.view.dtype, output.view.shape});
  call.scratch = device.scratch(call.node, types);
  return call;
}

Call check(const rl_attention_forward_params& params, const rl_context& context) {
  const auto input = [&](const rl_tensor* tensor, const char* name) {
    return read_tensor(tensor, name, context.device, Access::read);
  };
  Call call;
  call.inputs = {input(params.q, "q"), input(params.k, "k"), input(params.v, "v")};
  const ClaimedTensor &q = call.inputs[0], &k = call.inputs[1];
  const Shape rows = expect_inputs(q, k, call.inputs[2]);
  call.outputs = {read_tensor(params.out, "out", context.device, Access::write)};
  expect_type(call.outputs[0], q.view.dtype, q.view.shape);
  if (params.log_sum_exp != nullptr) {
    call.outputs.push_back(
        read_tensor(params.log_sum_exp, "log_sum_exp", context.device, Access::write));
    expect_type(call.outputs[1], DType::f32, rows);
  } else {
    call.log_sum_exp = byte_size({DType::f32, rows});
  }
  return finish(Op::attention, spec_of(params, q.view.shape, k.view.shape), std::move(call),
                *context.runs);
}

Call check(const rl_attention_backward_params& params, const rl_context& context) {
  const auto input = [&](const rl_tensor* tensor, const char* name) {
    return read_tensor(tensor, name, context.device, Access::read);
  };
  const auto output = [&](const rl_tensor* tensor, const char* name) {
    return read_tensor(tensor, name, context.device, Access::write);
  };
  Call call;
  call.inputs = {input(params.q, "q"),
                 input(params.k, "k"),
                 input(params.v, "v"),
                 input(params.out, "out"),
                 input(params.log_sum_exp, "log_sum_exp"),
                 input(params.d_out, "d_out")};
  call.outputs = {output(params.d_q, "d_q"), output(params.d_k, "d_k"), output(params.d_v, "d_v")};
  const ClaimedTensor &q = call.inputs[0], &k = call.inputs[1];
  const Shape rows = expect_inputs(q, k, call.inputs[2]);
  const DType dtype = q.view.dtype;
  expect_type(call.inputs[3], dtype, q.view.shape);
  expect_type(call.inputs[4], DType::f32, rows);
  expect_type(call.inputs[5], dtype, q.view.shape);
  expect_type(call.outputs[0], dtype, q.view.shape);
  expect_type(call.outputs[1], dtype, k.view.shape);
  expect_type(call.outputs[2], dtype, k.view.shape);
  AttentionSpec spec = spec_of(params, q.view.shape, k.view.shape);
  // One pass gives the same bits on the CPU as well, and is the faster one everywhere.
  if (params.deterministic != 0 && context.device.type != RL_CPU)
    spec.backward = BackwardAlgorithm::two_pass;
  return finish(Op::attention_gradient, spec, std::move(call), *context.runs);
}

rl_context& require(rl_context* context) {
  if (context == nullptr) throw invalid("context is null", "make one with rl_context_create");
  return *context;
}

template <class Params>
rl_status run(rl_context* given_context, const Params* given) noexcept {
  return guarded([&] {
    rl_context& context = require(given_context);
    const Params params = read_params(given, "params");
    const std::lock_guard lock(context.mutex);
    const Call call = check(params, context);
    const Bytes needed = call.workspace();
    char* memory = static_cast<char*>(params.workspace);
    if (memory != nullptr)
      expect_workspace(memory, params.workspace_bytes, static_cast<size_t>(needed.count),
                       {addresses(call.inputs), addresses(call.outputs)});
    else if (params.workspace_bytes != 0)
      throw invalid(
          fmt::format("workspace is null, but workspace_bytes {}", params.workspace_bytes),
          "pass the workspace, or 0 bytes");
    else if (needed.count > 0)
      memory = static_cast<char*>(context.runs->workspace(needed));
    std::vector<TensorView> outputs = views(call.outputs);
    if (call.log_sum_exp.count > 0) {
      const Shape& q = call.inputs[0].view.shape;
      const Shape rows = {q[0], q[1], q[2]};
      outputs.push_back({memory, DType::f32, rows, contiguous_strides(rows)});
    }
    context.runs->run(call.node, views(call.inputs), outputs,
                      call.scratch.count > 0 ? memory + call.log_sum_exp_room().count : nullptr);
  });
}

template <class Params>
rl_status workspace(rl_context* given_context, const Params* given, size_t* bytes) noexcept {
  return guarded([&] {
    rl_context& context = require(given_context);
    const Params params = read_params(given, "params");
    if (bytes == nullptr) throw invalid("bytes is null", "pass where the size is to be stored");
    const std::lock_guard lock(context.mutex);
    *bytes = static_cast<size_t>(check(params, context).workspace().count);
  });
}

}  // namespace
}  // namespace ridgeline

extern "C" {

rl_status rl_attention_forward(rl_context* context, const rl_attention_forward_params* params) {
  return ridgeline::run(context, params);
}

rl_status rl_attention_forward_workspace(rl_context* context,
                                         const rl_attention_forward_params* params, size_t* bytes) {
  return ridgeline::workspace(context, params, bytes);
}

rl_status rl_attention_backward(rl_context* context, const rl_attention_backward_params* params) {
  return ridgeline::run(context, params);
}

rl_status rl_attention_backward_workspace(rl_context* context,
                                          const rl_attention_backward_params* params,
                                          size_t* bytes) {
  return ridgeline::workspace(context, params, bytes);
}

}  // extern "C"
