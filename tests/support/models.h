// Models as tests make them: lowered, or ready to be prepared.
#pragma once

#include "studies/model/program.h"

namespace ridgeline::testing {

inline Lowered lowered_model(const ModelWorkload& workload, Scenario scenario) {
  return lower(model_trace(workload, scenario), model_options(workload));
}

inline Executable model_executable(const ModelWorkload& workload, Scenario scenario, Device& device,
                                   const AdamWOptions& optimizer = {},
                                   std::optional<Bytes> budget = {}) {
  CompileOptions options = model_options(workload, device);
  options.budget = budget;
  return Executable(model_trace(workload, scenario, optimizer), device, std::move(options));
}

}  // namespace ridgeline::testing
