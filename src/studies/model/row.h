// One row of the model study: a model in one precision and mode, from forward to full step.
//
//   ModelStudy study(device, {.scenarios = {Scenario::full_step}});
//   Record record = study.run(workload, study.describe(workload, blank)).value();
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "measure/record.h"
#include "runtime/device.h"
#include "studies/model/inputs.h"
#include "studies/model/verify.h"
#include "studies/model/workload.h"
#include "studies/row.h"

namespace ridgeline {

struct ModelStudyOptions {
  RowOptions row = {.protocol = {.warmups = 5, .iterations = 10}};  // of each scenario
  std::vector<Scenario> scenarios = {Scenario::forward, Scenario::forward_backward,
                                     Scenario::full_step};
  AdamWOptions optimizer = {};
  std::filesystem::path weights = {};  // see ModelInputOptions
  // Where to save the parameters after the last timed full step; empty: nowhere.
  std::filesystem::path save_weights = {};
  // Where to save tokens and logits of the scenario forward; empty: nowhere.
  std::filesystem::path save_logits = {};
  Bytes keep_on_host = {};  // see ModelInputOptions::keep
};

// What is timed separately: each stage in the scenario fwd-bwd, otherwise the whole step.
std::vector<std::function<void()>> parts_of(Executable& executable);

class ModelStudy {
 public:
  ModelStudy(Device& device, ModelStudyOptions options);

  // What identifies the row, without results. Cheap: nothing is traced.
  Record describe(const ModelWorkload& workload, const Record& blank) const;

  // The predicted peak of the largest scenario; nothing is run.
  Bytes predicted_peak(const ModelWorkload& workload) const;

  // The expected duration of the run, for progress lines.
  double expected_s(const ModelWorkload& workload, const Record& described) const;

  // Verifies, measures and fills in the results; nullopt if interrupted. A scenario whose predicted
  // peak is above the budget is not tried: the row is out of memory and has the figures of the
  // scenarios that fit. Compiled rows are compared with the vanilla row before them, or with an
  // extra run of vanilla if that fits.
  std::optional<Record> run(const ModelWorkload& workload, Record described);

  // For a compiled row: the plan of each scenario, beside the figures of `record`, if there is one.
  std::string explain(const ModelWorkload& workload, const Record* record) const;

 private:
  // Adds the predictions for the executable to the record; `before` is the largest predicted peak
  // of other scenarios. Throws if the predicted peak is above the budget.
  void predict(const Executable& executable, Bytes before, Record& record) const;
  // Throws Interrupted.
  void run_scenario(const ModelWorkload& workload, Scenario scenario, Record& record);
  // Runs one more step and adds the check of each of its kernels.
  void check_kernels(Executable& executable, const ModelWorkload& workload,
                     Verification& verification);
  std::unique_ptr<Executable> build(const ModelWorkload& workload, Scenario scenario,
                                    const std::string& of = {}) const;
  void begin(Scenario scenario, const char* stage) const;
  // Returns the sample of the first step; with a scaled loss, of the first step with finite
  // gradients. Throws if no scale makes them finite.
  ModelSample first_sample(const Executable& executable, const ModelSampler& sampler,
                           const std::function<void()>& run);
  std::optional<ModelSample> reference(const ModelWorkload& workload, Scenario scenario);
  void remember(const ModelWorkload& workload, Scenario scenario, const ModelSample& sample);
  void fail(const ModelWorkload& workload, Scenario scenario, const Error& error,
            Record& record) const;

  Device& device_;
  ModelStudyOptions options_;
  ModelInputs inputs_;
  std::string remembered_model_;            // the model that `remembered_` belongs to
  std::map<bool, ModelSample> remembered_;  // of vanilla; true: forward, false: training
};

}  // namespace ridgeline
