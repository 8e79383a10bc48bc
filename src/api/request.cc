#include "api/request.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <limits>

#include "api/border.h"
#include "base/error.h"

namespace ridgeline {
namespace {

constexpr int64_t kWidestHead = 256;

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
  if (params.reserved != 0)
    throw invalid(fmt::format("reserved is {}", params.reserved), "set it to 0");
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
    throw Error(
        ErrorKind::unsupported,
        fmt::format("head_dim is {}, and the kernels support up to {}", queries[3], kWidestHead));
  const Shape expected = {queries[0], keys[1], keys[2], queries[3]};
  expect_type(k, q.view.dtype, expected);
  expect_type(v, q.view.dtype, expected);
  return {queries[0], queries[1], queries[2]};
}

// A GPU's kernels count rows of log-sum-exps one after the other.
void expect_log_sum_exp(const ClaimedTensor& tensor, const Shape& rows, const TensorRules& rules) {
  expect_type(tensor, DType::f32, rows);
  if (rules.device.type != RL_CPU && !(tensor.view.strides == contiguous_strides(rows)))
    throw Error(ErrorKind::unsupported,
                fmt::format("log_sum_exp has strides {}: on a GPU it is contiguous",
                            to_string(tensor.view.strides)),
                "give it memory of its own");
}

bool holds(OperandKind kind, DType dtype) {
  return kind == OperandKind::unused || (kind == OperandKind::integer && dtype == DType::i32) ||
         (kind == OperandKind::condition && dtype == DType::boolean) ||
         (kind == OperandKind::number && is_floating(dtype));
}

constexpr const char* kOperandNames[] = {"operands[0]", "operands[1]", "operands[2]",
                                         "operands[3]", "operands[4]", "operands[5]"};
constexpr const char* kGradientNames[] = {"d_operands[0]", "d_operands[1]", "d_operands[2]",
                                          "d_operands[3]", "d_operands[4]", "d_operands[5]"};
static_assert(std::size(kOperandNames) == kMaxScoreOperands);

// The operands of the score function become inputs behind all others.
template <class Params>
void read_operands(const Params& params, const TensorRules& rules, Request& request) {
  request.score = params.score;
  const size_t expected = params.score == nullptr ? 0 : params.score->operands.size();
  if (params.operand_count != expected)
    throw invalid(fmt::format("operand_count is {}, the score function has {}",
                              params.operand_count, expected),
                  "pass as many operands as the function reads");
  if (expected > 0 && params.operands == nullptr)
    throw invalid("operands is null", "pass the operands of the score function");
  const Shape &q = request.inputs[0].view.shape, &k = request.inputs[1].view.shape;
  const Shape scores = {q[0], q[1], q[2], k[2]};
  for (size_t i = 0; i < expected; ++i) {
    const ClaimedTensor operand =
        read_tensor(params.operands[i], kOperandNames[i], rules, Access::operand);
    expect_rank(operand, 4, "[batch, heads, queries, keys], or 1 for each");
    for (int axis = 0; axis < 4; ++axis)
      if (operand.view.shape[axis] != 1 && operand.view.shape[axis] != scores[axis])
        throw invalid(fmt::format("{} has shape {}, the scores {}", operand.name,
                                  to_string(operand.view.shape), to_string(scores)),
                      "give each axis the size of the scores, or 1");
    if (!holds(params.score->operands[i], operand.view.dtype))
      throw invalid(fmt::format("{} is {}, and the score function reads another type", operand.name,
                                info(operand.view.dtype).name),
                    "give it the type that the function's nodes name");
    request.inputs.add(operand);
  }
}

// Whether neighbours along a diagonal of the scores share an element.
bool is_read_along_diagonals(const TensorView& operand, const Request& request) {
  const int64_t queries = request.inputs[0].view.shape[2], keys = request.inputs[1].view.shape[2];
  return operand.shape[2] == queries && operand.shape[3] == keys &&
         (queries == 1 || keys == 1 || operand.strides[2] == -operand.strides[3]);
}

// Whether a gradient has the shape of sums along diagonals. With one query the operand has that
// shape, too, and its gradient the same numbers.
bool asks_for_diagonals(const TensorView& gradient, const TensorView& operand,
                        const Request& request) {
  return is_read_along_diagonals(operand, request) && !(gradient.shape == operand.shape) &&
         gradient.shape == diagonal_sums(operand.shape);
}

void read_operand_gradients(const rl_attention_backward_params& params, const TensorRules& rules,
                            Request& request) {
  for (size_t i = 0; params.d_operands != nullptr && i < params.operand_count; ++i) {
    if (params.d_operands[i] == nullptr) continue;
    const ClaimedTensor gradient =
        read_tensor(params.d_operands[i], kGradientNames[i], rules, Access::write);
    if (params.score->operands[i] != OperandKind::number)
      throw invalid(fmt::format("{} is the gradient of no floating-point operand", gradient.name),
                    "pass null for it");
    const TensorView& operand = request.inputs[6 + i].view;
    const bool along_diagonals = asks_for_diagonals(gradient.view, operand, request);
    const Shape shape = along_diagonals ? diagonal_sums(operand.shape) : operand.shape;
    expect_type(gradient, gradient.view.dtype == DType::f32 ? DType::f32 : operand.dtype, shape);
    if (!(gradient.view.strides == contiguous_strides(shape)))
      throw Error(ErrorKind::unsupported,
                  fmt::format("{} has strides {}: gradients of operands are contiguous",
                              gradient.name, to_string(gradient.view.strides)),
                  "give it memory of its own");
    request.spec.operand_gradients |= 1u << i;
    if (along_diagonals) request.spec.diagonal_gradients |= 1u << i;
    request.outputs.add(gradient);
  }
}

void add_tensor(CallKey& key, const TensorView& view) {
  key.add(static_cast<int64_t>(view.dtype) * 64 + view.shape.rank());
  for (int64_t size : view.shape) key.add(size);
  for (int64_t stride : view.strides) key.add(stride);
  key.add(static_cast<int64_t>(reinterpret_cast<uintptr_t>(view.data) % kVectorBytes));
}

}  // namespace

CallKey Request::key() const {
  CallKey key;
  key.add(static_cast<int64_t>(op));
  key.add(std::bit_cast<int64_t>(spec.scale));
  key.add((spec.mask.causal ? 1 : 0) + 2 * static_cast<int64_t>(spec.mask.alignment) +
          8 * static_cast<int64_t>(spec.backward) + (keeps_log_sum_exp ? 64 : 0));
  key.add(spec.mask.window);
  key.add(static_cast<int64_t>(spec.operand_gradients));
  key.add(static_cast<int64_t>(spec.diagonal_gradients));
  key.add(score == nullptr ? 0 : static_cast<int64_t>(score->id));
  for (const ClaimedTensor& tensor : inputs.span()) add_tensor(key, tensor.view);
  for (const ClaimedTensor& tensor : outputs.span()) add_tensor(key, tensor.view);
  return key;
}

AttentionCall Request::call() const {
  AttentionCall made;
  AttentionSpec whole = spec;
  if (score != nullptr) {
    whole.function = read_score_graph(score->nodes, spec.scale).function;
    whole.scale = 1;
  }
  std::vector<TensorType> types;
  for (const ClaimedTensor& input : inputs.span()) {
    made.inputs.push_back(input.view);
    types.push_back({input.view.dtype, input.view.shape});
  }
  for (const ClaimedTensor& output : outputs.span()) made.outputs.push_back(output.view);
  if (!keeps_log_sum_exp)
    made.outputs.push_back({nullptr, DType::f32, rows, contiguous_strides(rows)});
  made.node.op = op;
  made.node.attributes.detail = whole;
  made.node.outputs = infer_types(op, types, made.node.attributes);
  return made;
}

Bytes Request::log_sum_exp_room() const {
  if (keeps_log_sum_exp) return {};
  constexpr auto kAlignment = static_cast<int64_t>(kWorkspaceAlignment);
  return {(byte_size({DType::f32, rows}).count + kAlignment - 1) / kAlignment * kAlignment};
}

Request read_request(const rl_attention_forward_params& params, const TensorRules& rules) {
  Request request;
  request.inputs.add(read_tensor(params.q, "q", rules, Access::read));
  request.inputs.add(read_tensor(params.k, "k", rules, Access::read));
  request.inputs.add(read_tensor(params.v, "v", rules, Access::read));
  const TensorView &q = request.inputs[0].view, &k = request.inputs[1].view;
  request.rows = expect_inputs(request.inputs[0], request.inputs[1], request.inputs[2]);
  request.outputs.add(read_tensor(params.out, "out", rules, Access::write));
  expect_type(request.outputs[0], q.dtype, q.shape);
  request.keeps_log_sum_exp = params.log_sum_exp != nullptr;
  if (request.keeps_log_sum_exp) {
    request.outputs.add(read_tensor(params.log_sum_exp, "log_sum_exp", rules, Access::write));
    expect_log_sum_exp(request.outputs[1], request.rows, rules);
  }
  request.spec = spec_of(params, q.shape, k.shape);
  read_operands(params, rules, request);
  if (rules.needs_data) expect_apart(request.outputs.span(), request.inputs.span());
  return request;
}

Request read_request(const rl_attention_backward_params& params, const TensorRules& rules) {
  const auto input = [&](const rl_tensor* tensor, const char* name) {
    return read_tensor(tensor, name, rules, Access::read);
  };
  const auto output = [&](const rl_tensor* tensor, const char* name) {
    return read_tensor(tensor, name, rules, Access::write);
  };
  Request request;
  request.op = Op::attention_gradient;
  ClaimedTensors &in = request.inputs, &out = request.outputs;
  in.add(input(params.q, "q"));
  in.add(input(params.k, "k"));
  in.add(input(params.v, "v"));
  in.add(input(params.out, "out"));
  in.add(input(params.log_sum_exp, "log_sum_exp"));
  in.add(input(params.d_out, "d_out"));
  out.add(output(params.d_q, "d_q"));
  out.add(output(params.d_k, "d_k"));
  out.add(output(params.d_v, "d_v"));
  const TensorView &q = in[0].view, &k = in[1].view;
  request.rows = expect_inputs(in[0], in[1], in[2]);
  expect_type(in[3], q.dtype, q.shape);
  expect_log_sum_exp(in[4], request.rows, rules);
  expect_type(in[5], q.dtype, q.shape);
  expect_type(out[0], q.dtype, q.shape);
  expect_type(out[1], q.dtype, k.shape);
  expect_type(out[2], q.dtype, k.shape);
  request.spec = spec_of(params, q.shape, k.shape);
  // One pass gives the same bits on the CPU as well, and is the faster one everywhere.
  if (params.deterministic != 0 && rules.device.type != RL_CPU)
    request.spec.backward = BackwardAlgorithm::two_pass;
  read_operands(params, rules, request);
  read_operand_gradients(params, rules, request);
  if (rules.needs_data) expect_apart(out.span(), in.span());
  return request;
}

}  // namespace ridgeline
