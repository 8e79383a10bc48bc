// A CPU whose products take epilogues, for tests of plans that use them: summed up in fp32, the
// rest in fp64, rounded once.
#pragma once

#include <cmath>

#include "kernels/host_values.h"
#include "runtime/cpu_device.h"

namespace ridgeline::testing {

class EpilogueCpu : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;

  bool has_epilogues() const override { return true; }

  void multiply(const Product& product) override {
    const TensorView& out = product.out;
    const int64_t count = element_count(out.shape);
    std::vector<float> sums(static_cast<size_t>(count));
    Node node;
    node.op = Op::matmul;
    const TensorView inputs[] = {product.a, product.b};
    const TensorView outputs[] = {{sums.data(), DType::f32, out.shape, out.strides}};
    run(node, inputs, outputs);
    for (int64_t i = 0; i < count; ++i) {
      double x = product.scale * static_cast<double>(sums[static_cast<size_t>(i)]);
      if (product.addend) x += load_one(product.addend->dtype, product.addend->data, i);
      if (product.bias)
        x += load_one(product.bias->dtype, product.bias->data, i % out.shape.back());
      if (product.activation == Activation::relu) x = std::max(x, 0.0);
      if (product.activation == Activation::gelu)
        x = 0.5 * x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
      store_one(out.dtype, static_cast<float>(x), out.data, i);
    }
    ++multiplied;
  }

  // Times every way as often as it is asked.
  std::optional<std::vector<double>> compare(const std::string& key, size_t ways,
                                             const std::function<double(size_t)>& time) override {
    keys.push_back(key);
    std::vector<double> times;
    for (size_t i = 0; i < ways; ++i) times.push_back(time(i));
    return times;
  }

  int multiplied = 0;             // products with an epilogue
  std::vector<std::string> keys;  // that were asked for
};

}  // namespace ridgeline::testing
