// One row of the profile study: builds, runs under a schedule, folds, and writes the trace.
//
//   ProfileStudy study(device, {.tracer = tracer.get()});
//   Record record = study.run(workload, {.trace = "trace.json.gz"}, study.describe(workload,
//   blank)).value();
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "measure/record.h"
#include "measure/roofline_model.h"
#include "profile/recorder.h"
#include "studies/model/inputs.h"
#include "studies/row.h"
#include "studies/step_workload.h"
#include "studies/utilisation.h"

namespace ridgeline {

struct ProfileStudyOptions {
  RowOptions row = {};
  ProfileSchedule schedule = {};
  AdamWOptions optimizer = {};
  ActivityTracer* tracer = nullptr;    // of a GPU, opened before the device; or null
  std::string why_not = {};            // why there is no tracer
  std::string why_not_counters = {};   // why CUPTI must not sample counters; empty: it may
  const Roofline* roofline = nullptr;  // measured ceilings; null: peaks of data sheets
  Bytes keep_on_host = {};             // see ModelInputOptions::keep
};

struct ProfileRowOptions {
  std::filesystem::path trace = {};  // the file to write; empty: none
  // A tracer can be stopped only once in a process, so only the last row measures its cost.
  bool is_last = true;
};

class ProfileStudy {
 public:
  ProfileStudy(Device& device, ProfileStudyOptions options);

  Record describe(const StepWorkload& workload, const Record& blank) const;  // builds no graph
  // nullopt for other libraries.
  std::optional<Bytes> predicted_peak(const StepWorkload& workload) const;
  double expected_s(const StepWorkload& workload, const Record& described) const;
  // Returns nullopt if interrupted.
  std::optional<Record> run(const StepWorkload& workload, const ProfileRowOptions& how,
                            Record described);

 private:
  std::unique_ptr<Executable> build(const StepWorkload& workload) const;

  Device& device_;
  ProfileStudyOptions options_;
  ModelInputs inputs_;
  UtilisationMeter meter_;
};

}  // namespace ridgeline
