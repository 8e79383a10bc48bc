// Attention and its gradients on your own buffers, in C++ over ridgeline.h.
//
//   #include <ridgeline/attention.h>
//
//   const rl::Sizes shape = {2, 8, 1024, 64};  // batch, heads, sequence, head_dim
//   const rl::Sizes rows = {2, 8, 1024};
//   std::vector<float> q(n), k(n), v(n), out(n), lse(n / 64), d_out(n), d_q(n), d_k(n), d_v(n);
//
//   rl::Context context;  // the CPU with all its threads
//   const rl::AttentionOptions options = {.causal = RL_CAUSAL_TOP_LEFT};
//   rl::attention_forward(context,
//                         {.q = {q, shape}, .k = {k, shape}, .v = {v, shape}, .out = {out, shape},
//                          .log_sum_exp = {lse, rows}},
//                         options);
//   rl::attention_backward(context,
//                          {.q = {q, shape}, .k = {k, shape}, .v = {v, shape}, .out = {out, shape},
//                           .log_sum_exp = {lse, rows}, .d_out = {d_out, shape},
//                           .d_q = {d_q, shape}, .d_k = {d_k, shape}, .d_v = {d_v, shape}},
//                          options);
//
// A failure is thrown as rl::Error. CMake: find_package(ridgeline), then link ridgeline::ridgeline.
#pragma once

#include <ridgeline/ridgeline.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <ranges>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>

namespace rl {

class Error : public std::runtime_error {
 public:
  Error(rl_status status, const std::string& message)
      : std::runtime_error(message), status_(status) {}
  rl_status status() const { return status_; }

 private:
  rl_status status_;
};

inline void check(rl_status status) {
  if (status != RL_OK) throw Error(status, rl_last_error());
}

// 16-bit elements, as stored in memory.
struct bf16 {
  uint16_t bits;
};
struct fp16 {
  uint16_t bits;
};

// The dtype of an element type; other types do not compile.
template <class T>
constexpr rl_dtype dtype_of() {
  static_assert(std::is_same_v<T, float> || std::is_same_v<T, bf16> || std::is_same_v<T, fp16> ||
                    std::is_same_v<T, int32_t> || std::is_same_v<T, bool>,
                "elements are float, rl::bf16 or rl::fp16; of operands also int32_t and bool");
  if constexpr (std::is_same_v<T, float>) return {RL_FLOAT, 32, 1};
  if constexpr (std::is_same_v<T, fp16>) return {RL_FLOAT, 16, 1};
  if constexpr (std::is_same_v<T, int32_t>) return {RL_INT, 32, 1};
  if constexpr (std::is_same_v<T, bool>) return {RL_BOOL, 8, 1};
  return {RL_BFLOAT, 16, 1};
}

// Sizes or strides of up to four axes.
class Sizes {
 public:
  Sizes(std::initializer_list<int64_t> sizes) : Sizes(std::span(sizes.begin(), sizes.size())) {}
  Sizes(std::span<const int64_t> sizes) : count_(static_cast<int32_t>(sizes.size())) {
    if (sizes.size() > sizes_.size()) throw std::invalid_argument("rl::Sizes: more than four axes");
    std::copy(sizes.begin(), sizes.end(), sizes_.begin());
  }
  const int64_t* data() const { return sizes_.data(); }
  int32_t count() const { return count_; }
  int64_t elements() const {
    int64_t product = 1;
    for (int32_t axis = 0; axis < count_; ++axis)
      if (sizes_[static_cast<size_t>(axis)] < 0 ||
          __builtin_mul_overflow(product, sizes_[static_cast<size_t>(axis)], &product))
        throw std::invalid_argument("rl::Sizes: no number of elements");
    return product;
  }

 private:
  std::array<int64_t, 4> sizes_ = {};
  int32_t count_;
};

// A non-owning view of memory. Default: no tensor.
class TensorView {
 public:
  TensorView() = default;
  // A contiguous host buffer, the last axis innermost.
  template <std::ranges::contiguous_range Buffer>
  TensorView(Buffer&& buffer, const Sizes& shape)
      : TensorView(std::ranges::data(buffer), shape, shape, {RL_CPU, 0}) {
    has_strides_ = false;
    if (static_cast<uint64_t>(shape.elements()) > std::ranges::size(buffer))
      throw std::invalid_argument("rl::TensorView: the buffer is smaller than the shape");
  }
  // Any strides, on any device.
  template <class T>
  TensorView(T* data, const Sizes& shape, const Sizes& strides, rl_device device = {RL_CPU, 0})
      : shape_(shape), strides_(strides), has_strides_(true) {
    if (strides.count() != shape.count())
      throw std::invalid_argument("rl::TensorView: as many strides as sizes are expected");
    tensor_.data = const_cast<std::remove_const_t<T>*>(data);
    tensor_.device = device;
    tensor_.dtype = dtype_of<std::remove_const_t<T>>();
  }

  // For the C interface; valid until this object is moved or destroyed. Null: no tensor.
  const rl_tensor* get() const {
    if (tensor_.data == nullptr) return nullptr;
    tensor_.ndim = shape_.count();
    tensor_.shape = shape_.data();
    tensor_.strides = has_strides_ ? strides_.data() : nullptr;
    return &tensor_;
  }

 private:
  mutable rl_tensor tensor_ = {};
  Sizes shape_ = {}, strides_ = {};
  bool has_strides_ = false;
};

struct ContextOptions {
  rl_device device = {RL_CPU, 0};
  int threads = 0;             // 0: as many as are available
  bool uses_stream = false;    // GPU work is queued on `stream`
  void* stream = nullptr;      // null: CUDA's default stream
  std::string cache_dir = {};  // of GPU kernels; empty: the user's cache
};

class Context {
 public:
  explicit Context(const ContextOptions& options = {}) {
    rl_context_params params = {};
    params.size = sizeof params;
    params.device = options.device;
    params.threads = options.threads;
    params.uses_stream = options.uses_stream ? 1 : 0;
    params.stream = options.stream;
    params.cache_dir = options.cache_dir.empty() ? nullptr : options.cache_dir.c_str();
    rl_context* context = nullptr;
    check(rl_context_create(&params, &context));
    context_.reset(context);
  }
  rl_context* get() const { return context_.get(); }
  void synchronize() { check(rl_context_synchronize(get())); }

 private:
  struct Destroy {
    void operator()(rl_context* context) const { rl_context_destroy(context); }
  };
  std::unique_ptr<rl_context, Destroy> context_;
};

// The f of softmax(f(scale q k^T) + mask) v; nodes as for rl_score_function_create.
class ScoreFunction {
 public:
  explicit ScoreFunction(std::span<const rl_score_node> nodes) {
    rl_score_function* function = nullptr;
    check(rl_score_function_create(nodes.data(), nodes.size(), &function));
    function_.reset(function);
  }
  const rl_score_function* get() const { return function_.get(); }

 private:
  struct Destroy {
    void operator()(rl_score_function* function) const { rl_score_function_destroy(function); }
  };
  std::unique_ptr<rl_score_function, Destroy> function_;
};

struct AttentionOptions {
  double scale = 0;  // 0: 1 / sqrt(head_dim)
  rl_causal causal = RL_CAUSAL_NONE;
  int64_t window = 0;
  bool deterministic = false;
  std::span<std::byte> workspace = {};  // device memory; empty: the context uses its own
  const ScoreFunction* score = nullptr;
  bool uses_stream = false;  // this call is queued on `stream`, not on the context's
  void* stream = nullptr;
};

// Operands of a score function, or their gradients; entries may be empty.
inline constexpr size_t kMaxOperands = 6;
using Operands = std::array<TensorView, kMaxOperands>;

struct ForwardTensors {
  TensorView q, k, v, out;
  TensorView log_sum_exp = {};  // none: not computed
  Operands operands = {};
};

struct BackwardTensors {
  TensorView q, k, v, out, log_sum_exp, d_out, d_q, d_k, d_v;
  Operands operands = {}, d_operands = {};
};

// Parameters of the C interface, with the arrays that they point to.
template <class Params>
struct Call {
  Params params = {};
  std::array<const rl_tensor*, kMaxOperands> operands = {}, d_operands = {};

  template <class Tensors>
  Call(const Tensors& tensors, const AttentionOptions& options) {
    params.size = sizeof params;
    params.q = tensors.q.get();
    params.k = tensors.k.get();
    params.v = tensors.v.get();
    params.out = tensors.out.get();
    params.log_sum_exp = tensors.log_sum_exp.get();
    params.scale = options.scale;
    params.window = options.window;
    params.causal = options.causal;
    params.deterministic = options.deterministic ? 1 : 0;
    params.workspace = options.workspace.data();
    params.workspace_bytes = options.workspace.size();
    params.score = options.score != nullptr ? options.score->get() : nullptr;
    params.operands = operands.data();
    for (size_t i = 0; i < kMaxOperands; ++i) {
      operands[i] = tensors.operands[i].get();
      if (operands[i] != nullptr) params.operand_count = i + 1;
    }
    params.uses_stream = options.uses_stream ? 1 : 0;
    params.stream = options.stream;
    if constexpr (std::is_same_v<Params, rl_attention_backward_params>) {
      params.d_out = tensors.d_out.get();
      params.d_q = tensors.d_q.get();
      params.d_k = tensors.d_k.get();
      params.d_v = tensors.d_v.get();
      for (size_t i = 0; i < kMaxOperands; ++i) d_operands[i] = tensors.d_operands[i].get();
      params.d_operands = d_operands.data();
    }
  }
  Call(const Call&) = delete;
};
using ForwardCall = Call<rl_attention_forward_params>;
using BackwardCall = Call<rl_attention_backward_params>;

// Shapes and meaning: rl_attention_forward_params and rl_attention_backward_params.
inline void attention_forward(Context& context, const ForwardTensors& tensors,
                              const AttentionOptions& options = {}) {
  const ForwardCall call(tensors, options);
  check(rl_attention_forward(context.get(), &call.params));
}

inline void attention_backward(Context& context, const BackwardTensors& tensors,
                               const AttentionOptions& options = {}) {
  const BackwardCall call(tensors, options);
  check(rl_attention_backward(context.get(), &call.params));
}

// Prepares what the same call needs, such as compiled kernels.
inline void warm_up(Context& context, const ForwardTensors& tensors,
                    const AttentionOptions& options = {}) {
  const ForwardCall call(tensors, options);
  check(rl_attention_forward_warm_up(context.get(), &call.params));
}

inline void warm_up(Context& context, const BackwardTensors& tensors,
                    const AttentionOptions& options = {}) {
  const BackwardCall call(tensors, options);
  check(rl_attention_backward_warm_up(context.get(), &call.params));
}

inline size_t workspace_bytes(Context& context, const ForwardTensors& tensors,
                              const AttentionOptions& options = {}) {
  const ForwardCall call(tensors, options);
  size_t bytes = 0;
  check(rl_attention_forward_workspace(context.get(), &call.params, &bytes));
  return bytes;
}

inline size_t workspace_bytes(Context& context, const BackwardTensors& tensors,
                              const AttentionOptions& options = {}) {
  const BackwardCall call(tensors, options);
  size_t bytes = 0;
  check(rl_attention_backward_workspace(context.get(), &call.params, &bytes));
  return bytes;
}

}  // namespace rl
