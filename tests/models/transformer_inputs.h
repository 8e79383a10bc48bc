// What a TransformerLM of the tests begins with, and how its results are held against the oracle's.
#pragma once

#include <gtest/gtest.h>

#include <memory>

#include "models/transformer_oracle.h"
#include "runtime/cuda/cuda_device.h"
#include "support/run_eager.h"

namespace ridgeline::testing {

inline NamedDoubles beginning(const TransformerConfig& config, uint64_t seed) {
  NamedDoubles weights;
  for (const Parameter& parameter : transformer_parameters(config)) {
    const std::vector<float> values = beginning_of(parameter, seed);
    Doubles& to = weights[parameter.name];
    to.assign(values.begin(), values.end());
    // Norms that differ from 1, so that a forgotten one shows.
    for (size_t i = 0; i < to.size() && parameter.shape.rank() == 1; ++i)
      to[i] = static_cast<float>(1 + 0.25 * std::sin(static_cast<double>(i)));
  }
  return weights;
}

inline InterpreterInputs inputs_of(const TransformerConfig& config, const NamedDoubles& weights,
                                   const std::vector<int>& tokens,
                                   const std::vector<int>& targets) {
  InterpreterInputs inputs(weights.begin(), weights.end());
  const RopeValues rope = rope_values(config.context_length, config.head_dim(), config.rope_theta);
  inputs["rope.cos"].assign(rope.cos.begin(), rope.cos.end());
  inputs["rope.sin"].assign(rope.sin.begin(), rope.sin.end());
  inputs["tokens"].assign(tokens.begin(), tokens.end());
  if (!targets.empty()) inputs["targets"].assign(targets.begin(), targets.end());
  return inputs;
}

inline void expect_close(const Doubles& got, const Doubles& expected, double tolerance,
                         const std::string& what) {
  ASSERT_EQ(got.size(), expected.size()) << what;
  double largest = 0;
  for (double value : expected) largest = std::max(largest, std::abs(value));
  for (size_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got[i], expected[i], tolerance * (largest + 1e-3)) << what << "[" << i << "]";
}

inline std::unique_ptr<Device> cpu() {
  return std::make_unique<CpuDevice>(CpuOptions{.threads = 3, .compiler = {.cache_dir = "off"}});
}
inline std::unique_ptr<Device> gpu() {
  return std::make_unique<CudaDevice>();
}

}  // namespace ridgeline::testing
