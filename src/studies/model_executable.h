// A model made ready to run in either mode: eagerly, or planned and compiled.
//
//   ModelExecutable executable({config, ModelPrecision::mixed, ModelMode::compiled},
//                              Scenario::full_step, device);
//   executable.prepare();                       // kernels and inputs
//   device.upload(executable.input("tokens"), tokens.data());
//   executable.run();
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "measure/speed_of_light.h"
#include "runtime/device.h"
#include "studies/model_workload.h"

namespace ridgeline {

class ModelExecutable {
 public:
  // Traces, applies the passes and plans; allocates nothing on the device, which must outlive this.
  ModelExecutable(const ModelWorkload& workload, Scenario scenario, Device& device,
                  const AdamWOptions& optimizer = {});
  ~ModelExecutable();
  ModelExecutable(const ModelExecutable&) = delete;
  ModelExecutable& operator=(const ModelExecutable&) = delete;

  Scenario scenario() const { return scenario_; }
  const Graph& graph() const;
  Bytes predicted_peak() const { return predicted_peak_; }
  int64_t launches() const { return launches_; }
  int64_t eager_launches() const { return eager_launches_; }  // of the same graph without fusion
  // Of a compiled model: every kernel and why, bytes, FLOPs, memory, and what was refused.
  std::string explain() const;
  // The least time that the kernels, one after the other, can take under these peaks; 0: not known.
  double roofline_seconds(const Peaks& peaks) const;

  // Compiles and allocates the inputs.
  void prepare();
  TensorView input(std::string_view name) const;
  TensorView output(std::string_view name) const;  // of the last run
  void set_poison(bool poison);
  void run();

  // Tracing, passes, planning and code generation.
  double compile_seconds() const;
  // Why a compiled model runs eagerly; empty: it does not.
  std::string fallback() const;

 private:
  struct State;

  Scenario scenario_;
  Device& device_;
  std::unique_ptr<State> state_;
  Bytes predicted_peak_;
  int64_t launches_ = 0;
  int64_t eager_launches_ = 0;
  double traced_seconds_ = 0;
};

}  // namespace ridgeline
