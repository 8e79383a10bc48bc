// One row of the transformer study: a model in one precision and mode, from forward to full step.
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

#include "measure/protocol.h"
#include "measure/record.h"
#include "runtime/device.h"
#include "studies/model/inputs.h"
#include "studies/model/verify.h"
#include "studies/model/workload.h"

namespace ridgeline {

struct ModelStudyOptions {
  Protocol protocol = {.warmups = 5, .iterations = 10};  // of each scenario
  std::vector<Scenario> scenarios = {Scenario::forward, Scenario::forward_backward,
                                     Scenario::full_step};
  AdamWOptions optimizer = {};
  std::filesystem::path weights = {};  // see ModelInputOptions
  // Where the parameters go after the last timed full step; empty: nowhere.
  std::filesystem::path save_weights = {};
  // Where tokens and logits of the forward scenario go; empty: nowhere.
  std::filesystem::path save_logits = {};
  uint64_t seed = 42;
  bool verify = true;
  Json settings = Json::object();  // what else identifies a row, such as how kernels were tuned
  Bytes keep_on_host = {};         // see ModelInputOptions::keep
  std::function<bool()> interrupted = {};              // asked between steps
  std::function<void(const std::string&)> stage = {};  // told what a row is at
};

// What is timed by itself: of forward and backward each of its stages, else all at once.
std::vector<std::function<void()>> parts_of(Executable& executable);

class ModelStudy {
 public:
  ModelStudy(Device& device, ModelStudyOptions options);

  // What identifies the row, without results. Cheap: nothing is traced.
  Record describe(const ModelWorkload& workload, const Record& blank) const;

  // The peak of the largest scenario, without running anything.
  Bytes predicted_peak(const ModelWorkload& workload) const;

  // Of the run, for progress lines.
  double expected_s(const ModelWorkload& workload, const Record& described) const;

  // Verifies, measures and fills in the results. A scenario whose predicted peak is above the
  // budget is not tried: the row is out of memory, with the figures of the scenarios that fit.
  // Compiled rows are compared with the vanilla run before them; where there was none, one is made
  // if it fits. Empty when interrupted.
  std::optional<Record> run(const ModelWorkload& workload, Record described);

  // Of a compiled row: the plan of each scenario, beside what `record` measured, if it did.
  std::string explain(const ModelWorkload& workload, const Record* record) const;

 private:
  // Puts what the executable will need into the record, which has `before` from other scenarios.
  // Throws where that is above the budget.
  void predict(const Executable& executable, Bytes before, Record& record) const;
  // Throws Interrupted.
  void run_scenario(const ModelWorkload& workload, Scenario scenario, Record& record);
  // Adds what every kernel of one more step showed.
  void check_kernels(Executable& executable, const ModelWorkload& workload,
                     Verification& verification);
  std::unique_ptr<Executable> build(const ModelWorkload& workload, Scenario scenario,
                                    const std::string& of = {}) const;
  void begin(Scenario scenario, const char* stage) const;
  // Of a step by `run`; with a scaled loss of the first whose gradients fp16 can hold. Throws where
  // no scale makes them finite.
  ModelSample first_sample(const Executable& executable, const ModelSampler& sampler,
                           const std::function<void()>& run);
  std::optional<ModelSample> reference(const ModelWorkload& workload, Scenario scenario);
  void remember(const ModelWorkload& workload, Scenario scenario, const ModelSample& sample);
  void fail(const ModelWorkload& workload, Scenario scenario, const Error& error,
            Record& record) const;

  Device& device_;
  ModelStudyOptions options_;
  ModelInputs inputs_;
  std::string remembered_model_;            // what `remembered_` is about
  std::map<bool, ModelSample> remembered_;  // of vanilla: forward, and training
};

}  // namespace ridgeline
