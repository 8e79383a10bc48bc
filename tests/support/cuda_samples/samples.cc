// Kernels that stand for all the planners can ask for, taken from small problems.
#include <algorithm>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/pointwise/pointwise.h"

namespace ridgeline {
namespace {

constexpr uintptr_t kSomewhere = 0x1000;  // planners look at addresses, but only for alignment

TensorView fake(DType dtype, Shape shape, uintptr_t shift = 0) {
  return {reinterpret_cast<void*>(kSomewhere + shift), dtype, shape, contiguous_strides(shape)};
}

TensorView transposed(TensorView view) {
  std::swap(view.shape.back(0), view.shape.back(1));
  std::swap(view.strides.back(0), view.strides.back(1));
  return view;
}

class Samples {
 public:
  explicit Samples(int compute_capability) { facts_.compute_capability = compute_capability; }
  void add(const std::vector<CudaLaunch>& launches) {
    for (const CudaLaunch& launch : launches)
      if (std::find(kernels_.begin(), kernels_.end(), launch.kernel) == kernels_.end())
        kernels_.push_back(launch.kernel);
  }
  void add_node(Op op, const TensorView& first, std::vector<TensorView> others,
                const TensorView& out) {
    add_node(op, first, std::move(others), {&out, 1}, {});
  }
  void add_node(Op op, const TensorView& first, std::vector<TensorView> others,
                std::span<const TensorView> outputs, const Attributes& attributes) {
    others.insert(others.begin(), first);
    const Node node{.op = op, .inputs = {}, .attributes = attributes, .outputs = {}, .name = {}};
    const CudaChooser choose = [](const auto&, size_t, const auto&) { return size_t{0}; };
    add(cuda_op(op).plan({.node = node,
                          .inputs = others,
                          .outputs = outputs,
                          .device = facts_,
                          .scratch = reinterpret_cast<void*>(kSomewhere),
                          .choose = choose}));
  }
  int compute_capability() const { return facts_.compute_capability; }
  std::vector<CudaKernel> take() { return std::move(kernels_); }

 private:
  CudaFacts facts_;
  std::vector<CudaKernel> kernels_;
};

void add_pointwise(Samples& samples) {
  const Shape shape = {4, 6, 64};
  float two = 2;
  const TensorView value{&two, DType::f32, {}, {}, true};
  for (int index = 0; index < static_cast<int>(kOpCount); ++index) {
    const Op op = static_cast<Op>(index);
    if (info(op).kind != OpClass::pointwise || op == Op::where || op == Op::cast) continue;
    const bool compares = op == Op::less || op == Op::less_equal || op == Op::equal;
    const DType result = compares ? DType::boolean : DType::f32;
    std::vector<TensorView> others;
    if (info(op).inputs == 2) others.push_back(value);
    samples.add_node(op, fake(DType::f32, shape), others, fake(result, shape));
  }
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const TensorView out = fake(dtype, shape);
    samples.add_node(Op::add, out, {out}, out);
    samples.add_node(Op::multiply, out, {fake(dtype, {6, 1})}, out);                  // spread
    samples.add_node(Op::multiply, transposed(fake(dtype, {4, 64, 6})), {out}, out);  // steps
    samples.add_node(Op::add, fake(dtype, {7, 33}, 16), {fake(dtype, {33})}, fake(dtype, {7, 33}));
    samples.add_node(Op::negate, fake(dtype, {77}), {}, fake(dtype, {77}));  // a tail
    samples.add_node(Op::where, fake(DType::boolean, {6, 64}), {out, fake(dtype, {})}, out);
    for (DType to : {DType::f32, DType::bf16, DType::f16, DType::i32, DType::boolean}) {
      samples.add({plan_copy(out, fake(to, shape))});
      samples.add({plan_copy(fake(to, shape), out)});
    }
  }
  samples.add_node(Op::less_equal, fake(DType::i32, {64}), {fake(DType::i32, {64, 1})},
                   fake(DType::boolean, {64, 64}));
  samples.add_node(Op::iota, fake(DType::i32, {9}), {}, fake(DType::i32, {9}));
  // More items than 32 bits count.
  const Shape huge = {int64_t{1} << 20, int64_t{1} << 16};
  samples.add_node(Op::negate, fake(DType::f32, huge), {}, fake(DType::f32, huge));
}

void add_rows(Samples& samples) {
  const auto add = [&](DType dtype, int64_t width) {
    const TensorView x = fake(dtype, {3, 8, width});
    samples.add_node(Op::softmax, x, {}, x);
    samples.add_node(Op::softmax_gradient, x, {x}, x);
    samples.add_node(Op::log_softmax, x, {}, x);
    samples.add_node(Op::log_softmax_gradient, x, {x}, x);
  };
  for (DType dtype : {DType::f32, DType::bf16})
    for (int64_t width : {7, 256, 1024, 1023, 2048, 4096, 8191, 8190, 16384, 65536, 65535})
      add(dtype, width);
  for (int64_t width : {1, 16, 1000, 2048, 32768}) add(DType::f16, width);
  const TensorView out = fake(DType::bf16, {3, 8, 40});
  const TensorView turned = transposed(fake(DType::bf16, {3, 40, 8}));
  samples.add_node(Op::softmax, turned, {}, out);
  samples.add_node(Op::softmax_gradient, turned, {out}, out);
}

void add_reductions(Samples& samples) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const TensorView x = fake(dtype, {6, 40, 512});
    for (const Shape& result :
         {Shape{6, 40, 1}, Shape{1, 1, 512}, Shape{6, 1, 512}, Shape{1, 40, 1}, Shape{1, 1, 1}})
      samples.add_node(Op::sum, x, {}, fake(dtype, result));
    const TensorView unaligned =
        fake(dtype, {6, 40, 512}, static_cast<uintptr_t>(info(dtype).size));
    for (const Shape& result : {Shape{6, 40, 1}, Shape{1, 1, 512}})
      samples.add_node(Op::max, unaligned, {}, fake(dtype, result));
  }
  samples.add_node(Op::mean, fake(DType::bf16, {3000, 37}), {}, fake(DType::bf16, {1, 37}));
  samples.add_node(Op::sum, fake(DType::f32, {1 << 22}), {}, fake(DType::f32, {1}));
}

void add_concats(Samples& samples) {
  const auto add = [&](const Shape& part, const Shape& result, DType dtype, int axis) {
    const TensorView out = fake(dtype, result);
    const TensorView x = fake(dtype, part);
    TensorView stepped = x;
    for (int each = 0; each < part.rank(); ++each) stepped.strides[each] *= 3;
    for (const TensorView& second : {x, stepped})
      samples.add_node(Op::concat, x, {second}, {&out, 1}, {Axes{{axis}}, {}});
  };
  for (DType dtype : {DType::f32, DType::bf16, DType::i32, DType::boolean}) {
    add({4, 6, 32, 1}, {4, 6, 32, 2}, dtype, 3);
    add({4, 6, 32}, {4, 12, 32}, dtype, 1);
    add({7}, {14}, dtype, 0);
  }
}

void add_indexed(Samples& samples) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32})
    for (int64_t width : {7, 64, 768, 4608}) {
      const TensorView table = fake(dtype, {100, width});
      const TensorView rows = fake(dtype, {9, width});
      const TensorView values = fake(dtype, {9});
      const TensorView indices = fake(DType::i32, {9});
      samples.add_node(Op::gather, table, {indices}, rows);
      samples.add_node(Op::pick, rows, {indices}, values);
      samples.add_node(Op::place, indices, {values}, rows);
      if (is_floating(dtype)) samples.add_node(Op::scatter_add, indices, {rows}, table);
    }
}

void add_caches(Samples& samples) {
  const TensorView position = fake(DType::i32, {1});
  for (DType dtype : {DType::f32, DType::bf16, DType::f16, DType::i32})
    for (int64_t width : {1, 7, 64, 256}) {
      const TensorView cache = fake(dtype, {2, 3, 16, width});
      const TensorView rows = fake(dtype, {2, 3, 5, width});
      samples.add_node(Op::append, cache, {rows, position}, cache);
      const TensorView turned = transposed(fake(dtype, {2, 3, width, 5}));
      samples.add_node(Op::append, cache, {turned, position}, cache);
      if (!is_floating(dtype)) continue;
      for (int64_t rows_of_logits : {1, 64}) {
        const TensorView logits = fake(dtype, {rows_of_logits, 4096 * width});
        samples.add_node(Op::argmax, logits, {}, fake(DType::i32, {rows_of_logits}));
      }
    }
  struct Heads {
    DType dtype;
    int64_t width, group, queries, slots;
  };
  for (const Heads& each : {Heads{DType::bf16, 256, 4, 1, 512}, Heads{DType::bf16, 256, 4, 8, 512},
                            Heads{DType::bf16, 64, 1, 1, 16}, Heads{DType::bf16, 7, 2, 1, 300},
                            Heads{DType::f16, 128, 2, 1, 4096}, Heads{DType::f16, 80, 8, 1, 300},
                            Heads{DType::f32, 256, 4, 1, 512}, Heads{DType::f32, 256, 8, 4, 512},
                            Heads{DType::f32, 255, 8, 1, 512}}) {
    const TensorView keys = fake(each.dtype, {2, 3, each.slots, each.width});
    const TensorView q = fake(each.dtype, {2, 3 * each.group, each.queries, each.width});
    const TensorView outputs[] = {q, fake(DType::f32, {2, 3 * each.group, each.queries})};
    samples.add_node(Op::attention, q, {keys, keys, position}, outputs,
                     {AttentionSpec{.cached = true}, {}});
  }
  samples.add_node(Op::advance, position, {}, {&position, 1}, {RowCount{1}, {}});
  const TensorView slots = fake(DType::i32, {100});
  samples.add_node(Op::ring_positions, position, {}, {&slots, 1}, {RowCount{1}, {}});
}

void add_multi_tensor(Samples& samples) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    const TensorView whole = fake(dtype, {1000});
    TensorView stepped = whole;
    stepped.strides[0] = 3;
    samples.add_node(Op::sum_of_squares, whole, {stepped}, fake(DType::f32, {1}));
    const TensorView moment = fake(DType::f32, {1000});
    for (AdamWVariant variant : {AdamWVariant::cs336, AdamWVariant::pytorch})
      for (bool extra : {false, true})  // a factor and copies
        for (const TensorView& gradient : {whole, stepped}) {
          std::vector<TensorView> others;
          if (extra) others.push_back(fake(DType::f32, {1}));
          for (const TensorView& each : {fake(DType::f32, {1000}), gradient, moment, moment})
            others.push_back(each);
          std::vector<TensorView> outputs = {fake(DType::f32, {1000}), moment, moment};
          if (extra) {
            others.push_back(fake(DType::bf16, {1000}));
            outputs.push_back(others.back());
          }
          samples.add_node(Op::adamw_update, fake(DType::f32, {3}), others, outputs,
                           {AdamWSpec{.variant = variant,
                                      .scaled = extra,
                                      .skips = extra && variant == AdamWVariant::pytorch,
                                      .copied = extra},
                            {}});
        }
  }
  // Updates that compute gradients themselves.
  for (const bool is_turned : {true, false})
    for (const AdamWVariant variant : {AdamWVariant::cs336, AdamWVariant::pytorch}) {
      if (samples.compute_capability() != 90) break;
      const TensorView numbers = fake(DType::f32, {256, 384}), copy = fake(DType::bf16, {256, 384});
      const TensorView left =
          is_turned ? transposed(fake(DType::bf16, {512, 256})) : fake(DType::bf16, {256, 512});
      const std::vector<TensorView> outputs = {numbers, numbers, numbers, copy};
      samples.add_node(Op::adamw_update, fake(DType::f32, {3}),
                       {numbers, left, numbers, numbers, copy, fake(DType::bf16, {512, 384})},
                       outputs, {AdamWSpec{.variant = variant, .copied = true, .products = 1}, {}});
    }
  const TensorView state = fake(DType::f32, {kLossScaleState});
  samples.add_node(Op::loss_scale_update, state, {fake(DType::f32, {1})}, {&state, 1},
                   {LossScaleSpec{}, {}});
}

}  // namespace

std::vector<CudaKernel> eager_kernel_samples(int compute_capability) {
  Samples samples(compute_capability);
  add_pointwise(samples);
  add_rows(samples);
  add_reductions(samples);
  add_concats(samples);
  add_indexed(samples);
  add_caches(samples);
  add_multi_tensor(samples);
  return samples.take();
}

}  // namespace ridgeline
