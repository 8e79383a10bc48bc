// Faults as kernels have them, planted where a device runs a node: in what the kernel is asked to
// do, or in what it leaves behind. A fault that changes no value is not counted as planted.
//
//   Faulty<CpuDevice> device({.threads = 2});
//   device.plant({.op = Op::adamw_update, .node = {}, .ask = {}, .result = result_faults()[0]});
//   ...  // whatever runs nodes
//   EXPECT_TRUE(device.planted());
#pragma once

#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "kernels/host_values.h"
#include "runtime/device.h"

namespace ridgeline::testing {

// What is left in a result: its values, in rows of `width`.
struct ResultFault {
  const char* what = "";
  void (*plant)(std::vector<float>& values, size_t width, DType dtype) = nullptr;
};

// What is asked for instead of a node.
struct Asked {
  Node node;
  std::vector<TensorView> inputs, outputs;
};
struct AskFault {
  Op op = Op::input;
  const char* what = "";
  bool (*change)(Asked& asked) = nullptr;  // false: there is nothing to change here
};

struct PlantedFault {
  Op op = Op::input;
  std::optional<uint32_t> node = {};  // by first_value: this node alone
  AskFault ask = {};
  ResultFault result = {};
  size_t output = 0;  // that `result` is planted in

  std::string name() const {
    return std::string(info(op).name) + (node ? ", one node: " : ", all nodes: ") +
           (ask.change != nullptr ? ask.what : result.what) +
           (output > 0 ? ", result " + std::to_string(output) : "");
  }
};

inline double rough_size(const std::vector<float>& values) {
  double squares = 0;
  for (float value : values)
    if (std::isfinite(value)) squares += static_cast<double>(value) * value;
  return std::sqrt(squares / static_cast<double>(values.size()));
}

inline void put_off(std::vector<float>& values, size_t at) {
  values[at] += static_cast<float>(0.05 * (std::abs(values[at]) + rough_size(values)));
}

inline std::span<const ResultFault> result_faults() {
  using Values = std::vector<float>;
  static constexpr ResultFault kFaults[] = {
      {"an element is off", [](Values& v, size_t, DType) { put_off(v, v.size() / 2); }},
      {"the last element is off", [](Values& v, size_t, DType) { put_off(v, v.size() - 1); }},
      {"the last column is off",
       [](Values& v, size_t width, DType) {
         for (size_t at = width - 1; at < v.size(); at += width) put_off(v, at);
       }},
      {"the last row is the first",
       [](Values& v, size_t width, DType) {
         std::copy_n(v.begin(), width, v.end() - static_cast<std::ptrdiff_t>(width));
       }},
      {"all are a little too large",
       [](Values& v, size_t, DType dtype) {
         for (float& value : v) value *= is_16_bit(dtype) ? 1.02f : 1.001f;
       }},
      {"a row has the wrong sign",
       [](Values& v, size_t width, DType) {
         const size_t row = v.size() / width / 2;
         for (size_t at = row * width; at < (row + 1) * width; ++at) v[at] = -v[at];
       }},
      {"the tail is 0",
       [](Values& v, size_t, DType) {
         std::fill(v.end() - static_cast<std::ptrdiff_t>((v.size() + 7) / 8), v.end(), 0.0f);
       }},
      {"elements are shifted by one",
       [](Values& v, size_t, DType) { std::copy_backward(v.begin(), v.end() - 1, v.end()); }},
      {"the first and the last row are exchanged",
       [](Values& v, size_t width, DType) {
         std::swap_ranges(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(width),
                          v.end() - static_cast<std::ptrdiff_t>(width));
       }},
      {"the first element is 0", [](Values& v, size_t, DType) { v[0] = 0; }},
      {"the last bits are lost",
       [](Values& v, size_t, DType dtype) {
         const uint32_t mask = is_16_bit(dtype) ? ~0x3ffffu : ~0xfffu;
         for (float& value : v) {
           uint32_t bits = 0;
           std::memcpy(&bits, &value, sizeof bits);
           bits &= mask;
           std::memcpy(&value, &bits, sizeof bits);
         }
       }},
      {"an element is not a number",
       [](Values& v, size_t, DType) { v[v.size() / 3] = std::nanf(""); }},
  };
  return kFaults;
}

// Another op of the same operands, or the same one with operands exchanged.
inline std::span<const AskFault> ask_faults() {
  static constexpr auto exchange = [](Asked& asked) {
    std::swap(asked.inputs[0], asked.inputs[1]);
    return true;
  };
  // Every row reads the first one.
  static constexpr auto first_row = [](Asked& asked) {
    TensorView& x = asked.inputs[0];
    if (x.shape.rank() == 0 || x.shape[0] < 2 || x.strides[0] == 0) return false;
    x.strides[0] = 0;
    return true;
  };
  static constexpr auto first_index = [](Asked& asked) {
    const size_t indices = asked.node.op == Op::scatter_add || asked.node.op == Op::place ? 0 : 1;
    asked.inputs[indices].strides[0] = 0;
    return true;
  };
  static constexpr auto lose_last_term = [](Asked& asked) {
    TensorView &a = asked.inputs[0], &b = asked.inputs[1];
    if (a.shape.back() < 2) return false;
    --a.shape.back();
    --b.shape.back(1);
    return true;
  };
  static constexpr AskFault kFaults[] = {
      {Op::add, "subtracts", [](Asked& a) { return a.node.op = Op::subtract, true; }},
      {Op::add, "reads the first row only", first_row},
      {Op::subtract, "adds", [](Asked& a) { return a.node.op = Op::add, true; }},
      {Op::subtract, "exchanges operands", exchange},
      {Op::multiply, "adds", [](Asked& a) { return a.node.op = Op::add, true; }},
      {Op::multiply, "reads the first row only", first_row},
      {Op::divide, "multiplies", [](Asked& a) { return a.node.op = Op::multiply, true; }},
      {Op::divide, "exchanges operands", exchange},
      {Op::negate, "is a sigmoid", [](Asked& a) { return a.node.op = Op::sigmoid, true; }},
      {Op::rsqrt, "takes the root", [](Asked& a) { return a.node.op = Op::sqrt, true; }},
      {Op::sqrt, "takes the inverse root", [](Asked& a) { return a.node.op = Op::rsqrt, true; }},
      {Op::silu, "is a sigmoid", [](Asked& a) { return a.node.op = Op::sigmoid, true; }},
      {Op::silu_gradient, "exchanges operands", exchange},
      {Op::where, "exchanges branches",
       [](Asked& a) { return std::swap(a.inputs[1], a.inputs[2]), true; }},
      {Op::less, "is the other way round", exchange},
      {Op::less_equal, "is the other way round", exchange},
      {Op::cast, "reads the first row only", first_row},
      {Op::softmax, "is its logarithm", [](Asked& a) { return a.node.op = Op::log_softmax, true; }},
      {Op::softmax, "reads the first row only", first_row},
      {Op::log_softmax, "is no logarithm", [](Asked& a) { return a.node.op = Op::softmax, true; }},
      {Op::softmax_gradient, "exchanges operands", exchange},
      {Op::softmax_gradient, "is the logarithm's",
       [](Asked& a) { return a.node.op = Op::log_softmax_gradient, true; }},
      {Op::log_softmax_gradient, "is no logarithm's",
       [](Asked& a) { return a.node.op = Op::softmax_gradient, true; }},
      {Op::sum, "is a mean", [](Asked& a) { return a.node.op = Op::mean, true; }},
      {Op::sum, "is a maximum", [](Asked& a) { return a.node.op = Op::max, true; }},
      {Op::mean, "is a sum", [](Asked& a) { return a.node.op = Op::sum, true; }},
      {Op::mean, "is a maximum", [](Asked& a) { return a.node.op = Op::max, true; }},
      {Op::matmul, "loses the last term", lose_last_term},
      {Op::matmul, "reads the first row only", first_row},
      {Op::gather, "takes the first index only", first_index},
      {Op::pick, "takes the first index only", first_index},
      {Op::scatter_add, "takes the first index only", first_index},
      {Op::place, "takes the first index only", first_index},
      {Op::scatter_add, "loses the last row",
       [](Asked& a) { return --a.inputs[0].shape[0], --a.inputs[1].shape[0], true; }},
      {Op::concat, "exchanges parts", exchange},
      {Op::sum_of_squares, "loses the last tensor",
       [](Asked& a) { return a.inputs.size() > 1 && (a.inputs.pop_back(), true); }},
      {Op::sum_of_squares, "takes the first tensor twice",
       [](Asked& a) { return a.inputs.push_back(a.inputs[0]), true; }},
      {Op::sum_of_squares, "loses the last element",
       [](Asked& a) { return --a.inputs[0].shape[0], true; }},
      {Op::attention, "has another scale",
       [](Asked& a) {
         return std::get<AttentionSpec>(a.node.attributes.detail).scale *= 1.01, true;
       }},
      {Op::attention, "has no mask, or one",
       [](Asked& a) {
         bool& causal = std::get<AttentionSpec>(a.node.attributes.detail).mask.causal;
         return causal = !causal, true;
       }},
      {Op::attention, "exchanges keys and values",
       [](Asked& a) { return std::swap(a.inputs[1], a.inputs[2]), true; }},
      {Op::attention, "reads the first head only",
       [](Asked& a) { return a.inputs[1].shape[1] > 1 && (a.inputs[1].strides[1] = 0, true); }},
      {Op::attention_gradient, "has another scale",
       [](Asked& a) {
         return std::get<AttentionSpec>(a.node.attributes.detail).scale *= 1.01, true;
       }},
      {Op::attention_gradient, "has no mask, or one",
       [](Asked& a) {
         bool& causal = std::get<AttentionSpec>(a.node.attributes.detail).mask.causal;
         return causal = !causal, true;
       }},
      {Op::attention_gradient, "takes the gradient for the output",
       [](Asked& a) { return a.inputs[3] = a.inputs[5], true; }},
      {Op::attention_gradient, "takes the output for its gradient",
       [](Asked& a) { return a.inputs[5] = a.inputs[3], true; }},
      {Op::attention_gradient, "exchanges keys and values",
       [](Asked& a) { return std::swap(a.inputs[1], a.inputs[2]), true; }},
      {Op::attention_gradient, "writes d_k and d_v exchanged",
       [](Asked& a) { return std::swap(a.outputs[1], a.outputs[2]), true; }},
      {Op::attention_gradient, "reads the first head only",
       [](Asked& a) { return a.inputs[1].shape[1] > 1 && (a.inputs[1].strides[1] = 0, true); }},
  };
  return kFaults;
}

// Of AdamW: wrong decays, corrections, clipping, and tensors left out.
inline std::span<const AskFault> adamw_faults() {
  static constexpr auto spec = [](Asked& asked) -> AdamWSpec& {
    return std::get<AdamWSpec>(asked.node.attributes.detail);
  };
  static constexpr auto tensors = [](const Asked& asked) {
    const auto& of = std::get<AdamWSpec>(asked.node.attributes.detail);
    return asked.outputs.size() / of.results_of_each();
  };
  static constexpr AskFault kFaults[] = {
      {Op::adamw_update, "keeps less of the first moment",
       [](Asked& a) { return spec(a).beta1 = 0.8, true; }},
      {Op::adamw_update, "keeps less of the second moment",
       [](Asked& a) { return spec(a).beta2 = 0.99, true; }},
      {Op::adamw_update, "has a larger epsilon",
       [](Asked& a) { return spec(a).epsilon *= 10, true; }},
      {Op::adamw_update, "has no weight decay",
       [](Asked& a) { return spec(a).weight_decay = 0, true; }},
      {Op::adamw_update, "has twice the weight decay",
       [](Asked& a) { return spec(a).weight_decay *= 2, true; }},
      {Op::adamw_update, "is the other variant",
       [](Asked& a) {
         AdamWVariant& variant = spec(a).variant;
         variant = variant == AdamWVariant::cs336 ? AdamWVariant::pytorch : AdamWVariant::cs336;
         return true;
       }},
      {Op::adamw_update, "takes the rate for the corrections",
       [](Asked& a) { return a.inputs[0].strides[0] = 0, true; }},
      {Op::adamw_update, "does not clip",
       [](Asked& a) {
         if (!spec(a).scaled) return false;
         spec(a).scaled = false;
         a.inputs.erase(a.inputs.begin() + 1);
         return true;
       }},
      {Op::adamw_update, "exchanges the moments",
       [](Asked& a) {
         const size_t n = tensors(a), first = spec(a).first_parameter();
         for (size_t i = 0; i < n; ++i) {
           std::swap(a.inputs[first + 2 * n + i], a.inputs[first + 3 * n + i]);
           std::swap(a.outputs[n + i], a.outputs[2 * n + i]);
         }
         return true;
       }},
      {Op::adamw_update, "reads the first gradient only",
       [](Asked& a) {
         const size_t n = tensors(a), first = spec(a).first_parameter();
         for (size_t i = 0; i < n; ++i) a.inputs[first + n + i].strides[0] = 0;
         return true;
       }},
      {Op::adamw_update, "leaves the last tensor as it is",
       [](Asked& a) {
         const size_t n = tensors(a), kinds = spec(a).results_of_each();
         if (n < 2) return false;
         const size_t first = spec(a).first_parameter();
         for (size_t kind = kinds + 1; kind-- > 0;)
           a.inputs.erase(a.inputs.begin() + static_cast<std::ptrdiff_t>(first + kind * n + n - 1));
         for (size_t kind = kinds; kind-- > 0;)
           a.outputs.erase(a.outputs.begin() + static_cast<std::ptrdiff_t>(kind * n + n - 1));
         for (size_t kind = kinds; kind-- > 0;)
           a.node.outputs.erase(a.node.outputs.begin() +
                                static_cast<std::ptrdiff_t>(kind * n + n - 1));
         return true;
       }},
  };
  return kFaults;
}

// A device on which every kernel of an op, or that of one node, has the fault.
template <class Base>
class Faulty : public Base {
 public:
  using Base::Base;

  void plant(PlantedFault fault) {
    fault_ = std::move(fault);
    planted_ = false;
  }
  // Whether a value has come out otherwise since.
  bool planted() const { return planted_; }

  // Faults are planted by the host, of which a launch graph knows nothing.
  bool can_record() const override { return false; }
  RecordedWork record(const std::function<void()>&) override { return nullptr; }

  void run(const Node& node, std::span<const TensorView> inputs,
           std::span<const TensorView> outputs, void* scratch = nullptr) override {
    const bool here =
        fault_ && node.op == fault_->op && (!fault_->node || *fault_->node == node.first_value);
    if (!here) return Base::run(node, inputs, outputs, scratch);
    const std::vector<std::string> before = bytes_of(outputs);
    Base::run(node, inputs, outputs, scratch);
    const std::vector<std::string> right = bytes_of(outputs);
    if (fault_->ask.change != nullptr) {
      Asked asked{node, {inputs.begin(), inputs.end()}, {outputs.begin(), outputs.end()}};
      if (!fault_->ask.change(asked)) return;
      for (size_t i = 0; i < outputs.size(); ++i) this->upload(whole(outputs[i]), before[i].data());
      Base::run(asked.node, asked.inputs, asked.outputs, scratch);
    } else {
      spoil(outputs[fault_->output % outputs.size()]);
    }
    planted_ = planted_ || differ(outputs, right);
  }

  void multiply(const Product& product) override {
    Base::multiply(product);
    if (!fault_ || fault_->op != Op::matmul || fault_->ask.change != nullptr) return;
    const std::vector<std::string> right = bytes_of({&product.out, 1});
    spoil(product.out);
    planted_ = planted_ || differ({&product.out, 1}, right);
  }

 private:
  // The stretch of memory that a view touches.
  static TensorView whole(const TensorView& view) {
    int64_t extent = 1;
    for (int axis = 0; axis < view.shape.rank(); ++axis)
      extent += (view.shape[axis] - 1) * view.strides[axis];
    return {view.data, view.dtype, {extent}, {1}};
  }

  std::vector<std::string> bytes_of(std::span<const TensorView> views) const {
    std::vector<std::string> all;
    for (const TensorView& view : views) {
      const TensorView stretch = whole(view);
      all.emplace_back(static_cast<size_t>(stretch.shape[0] * info(view.dtype).size), '\0');
      this->download(stretch, all.back().data());
    }
    return all;
  }

  // Whether there are other values; 0 and -0 are the same.
  bool differ(std::span<const TensorView> views, const std::vector<std::string>& right) const {
    const std::vector<std::string> now = bytes_of(views);
    for (size_t i = 0; i < views.size(); ++i) {
      if (now[i] == right[i]) continue;
      for (int64_t offset : offsets_of(views[i])) {
        const float a = load_one(views[i].dtype, now[i].data(), offset);
        const float b = load_one(views[i].dtype, right[i].data(), offset);
        if (a != b && !(std::isnan(a) && std::isnan(b))) return true;
      }
    }
    return false;
  }

  void spoil(const TensorView& view) {
    std::string bytes = bytes_of({&view, 1})[0];
    std::vector<float> values;
    const std::vector<int64_t> offsets = offsets_of(view);
    for (int64_t offset : offsets) values.push_back(load_one(view.dtype, bytes.data(), offset));
    const size_t width = view.shape.rank() == 0 ? 1 : static_cast<size_t>(view.shape.back());
    fault_->result.plant(values, width, view.dtype);
    for (size_t i = 0; i < values.size(); ++i)
      store_one(view.dtype, values[i], bytes.data(), offsets[i]);
    this->upload(whole(view), bytes.data());
  }

  static std::vector<int64_t> offsets_of(const TensorView& view) {
    std::vector<int64_t> offsets;
    for (int64_t flat = 0; flat < element_count(view.shape); ++flat) {
      int64_t rest = flat, offset = 0;
      for (int axis = view.shape.rank() - 1; axis >= 0; --axis) {
        offset += rest % view.shape[axis] * view.strides[axis];
        rest /= view.shape[axis];
      }
      offsets.push_back(offset);
    }
    return offsets;
  }

  std::optional<PlantedFault> fault_;
  bool planted_ = false;
};

}  // namespace ridgeline::testing
