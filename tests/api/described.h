// Tensors of the flash tests as the C interface takes them.
#pragma once

#include <ridgeline/ridgeline.h>

#include <array>
#include <memory>

#include "kernels/flash_test_support.h"

namespace ridgeline::api_testing {

inline rl_dtype dtype_of(DType dtype) {
  if (dtype == DType::bf16) return {RL_BFLOAT, 16, 1};
  return {RL_FLOAT, static_cast<uint8_t>(dtype == DType::f16 ? 16 : 32), 1};
}

// A description of a view, with the numbers that it points to.
class Described {
 public:
  explicit Described(const TensorView& view) : shape_(view.shape), strides_(view.strides) {
    tensor_ = {view.data,
               {RL_CPU, 0},
               shape_.rank(),
               dtype_of(view.dtype),
               shape_.begin(),
               strides_.begin(),
               0};
  }
  Described(const Described&) = delete;
  const rl_tensor* get() const { return &tensor_; }
  rl_tensor& edit() { return tensor_; }
  Shape& shape() { return shape_; }
  Strides& strides() { return strides_; }

 private:
  Shape shape_;
  Strides strides_;
  rl_tensor tensor_;
};

struct DestroyContext {
  void operator()(rl_context* context) const { rl_context_destroy(context); }
};
using ContextPointer = std::unique_ptr<rl_context, DestroyContext>;

inline ContextPointer cpu_context(int threads) {
  rl_context_params params = {};
  params.size = sizeof params;
  params.device = {RL_CPU, 0};
  params.threads = threads;
  rl_context* context = nullptr;
  EXPECT_EQ(rl_context_create(&params, &context), RL_OK) << rl_last_error();
  return ContextPointer(context);
}

// All tensors of a problem and the parameters of both calls, which tests may change.
struct Problem {
  explicit Problem(const flash_testing::Config& config)
      : rows{config.batch, config.heads, config.queries},
        queries{config.batch, config.heads, config.queries, config.head_dim},
        keys{config.batch, config.key_heads, config.keys, config.head_dim},
        q_values(config.dtype, queries, config.layout),
        k_values(config.dtype, keys, config.layout),
        v_values(config.dtype, keys, config.layout),
        d_out_values(config.dtype, queries, config.layout),
        run{{config.dtype, queries, config.layout},
            {DType::f32, rows, config.layout},
            {config.dtype, queries, config.layout},
            {config.dtype, keys, config.layout},
            {config.dtype, keys, config.layout}} {
    const AttentionMask& mask = config.mask;
    forward.size = sizeof forward;
    forward.q = q.get();
    forward.k = k.get();
    forward.v = v.get();
    forward.out = out.get();
    forward.log_sum_exp = log_sum_exp.get();
    forward.window = mask.window;
    forward.causal = !mask.causal ? RL_CAUSAL_NONE
                     : mask.alignment == AttentionMask::Alignment::top_left
                         ? RL_CAUSAL_TOP_LEFT
                         : RL_CAUSAL_BOTTOM_RIGHT;
    backward.size = sizeof backward;
    backward.q = q.get();
    backward.k = k.get();
    backward.v = v.get();
    backward.out = out.get();
    backward.log_sum_exp = log_sum_exp.get();
    backward.d_out = d_out.get();
    backward.d_q = d_q.get();
    backward.d_k = d_k.get();
    backward.d_v = d_v.get();
    backward.window = forward.window;
    backward.causal = forward.causal;
  }

  void assign(const flash_testing::Inputs& in) {
    q_values.assign(in.q);
    k_values.assign(in.k);
    v_values.assign(in.v);
    d_out_values.assign(in.d_out);
  }

  Shape rows, queries, keys;
  flash_testing::Tensor q_values, k_values, v_values, d_out_values;
  flash_testing::Outcome run;
  Described q{q_values.view()}, k{k_values.view()}, v{v_values.view()}, d_out{d_out_values.view()},
      out{run.out.view()}, log_sum_exp{run.log_sum_exp.view()}, d_q{run.d_q.view()},
      d_k{run.d_k.view()}, d_v{run.d_v.view()};
  rl_attention_forward_params forward = {};
  rl_attention_backward_params backward = {};
};

}  // namespace ridgeline::api_testing
