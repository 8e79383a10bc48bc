// A model made ready to run in either mode: eagerly, or planned and compiled.
//
//   ModelExecutable executable({config, ModelPrecision::mixed, ModelMode::compiled},
//                              Scenario::full_step, device);
//   executable.prepare();                       // kernels and inputs
//   device.upload(executable.input("tokens"), tokens.data());
//   executable.run();
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "cost/cost.h"
#include "measure/speed_of_light.h"
#include "runtime/kernel_observer.h"
#include "studies/model_memory.h"
#include "studies/model_workload.h"

namespace ridgeline {

struct ModelExecutableOptions {
  AdamWOptions optimizer = {};
  std::optional<Bytes> budget = {};  // that a compiled model is fitted to; none: the device's
  // Told what begins: "trace", "passes", "plan", "kernels".
  std::function<void(const std::string&)> stage = {};
};

class ModelExecutable {
 public:
  // Traces, applies the passes and plans; allocates nothing on the device, which must outlive this.
  ModelExecutable(const ModelWorkload& workload, Scenario scenario, Device& device,
                  ModelExecutableOptions options = {});
  ~ModelExecutable();
  ModelExecutable(const ModelExecutable&) = delete;
  ModelExecutable& operator=(const ModelExecutable&) = delete;

  Scenario scenario() const { return scenario_; }
  const Graph& graph() const;
  // Of what will run: once prepare() had to fall back, eagerly.
  Bytes predicted_peak() const { return predicted_peak_; }
  int64_t launches() const { return launches_; }
  int64_t eager_launches() const { return eager_launches_; }  // of the same graph without fusion
  // Of a compiled model: every kernel and why, bytes, FLOPs, memory, and what was refused.
  // With `timed`, also how long each takes, if it was prepared and the device can tell.
  std::string explain(bool timed = false) const;
  // What lives in the worst moment, without running anything.
  ModelMemory memory() const;
  // The least time that the kernels, one after the other, can take under these peaks; 0: not known.
  double roofline_seconds(const Peaks& peaks) const;

  // What the kernels of each stage do: after fusion, if that is how they run.
  std::vector<Cost> stage_costs() const;

  // Compiles and allocates the inputs.
  void prepare();
  // An input under the model's own name, also where the compiler keeps several in one.
  TensorView input(std::string_view name) const;
  bool has_input(std::string_view name) const;
  TensorView output(std::string_view name) const;  // of the last run
  void set_poison(bool poison);
  void set_observer(KernelObserver* observer);  // of every kernel; null: nobody
  void run() {
    for (size_t part = 0; part < parts(); ++part) run_part(part);
  }
  // What is timed apart: of fwd-bwd its stages, forward and backward; else all of them as one.
  size_t parts() const;
  void run_part(size_t part);

  // Tracing, passes, planning and code generation.
  double compile_seconds() const;
  // Why a compiled model runs eagerly; empty: it does not.
  std::string fallback() const;

 private:
  struct State;

  // Of a tensor that is a run of rows of an input.
  struct Part {
    std::string input;
    int64_t begin = 0, end = 0;
  };
  void find_parts();
  void plan_eagerly();
  void begin(const char* stage) const;

  Scenario scenario_;
  Device& device_;
  ModelExecutableOptions options_;
  std::unordered_map<std::string, Part> parts_;
  std::unique_ptr<State> state_;
  Bytes predicted_peak_;
  int64_t launches_ = 0;
  int64_t eager_launches_ = 0;
  double traced_seconds_ = 0;
};

}  // namespace ridgeline
