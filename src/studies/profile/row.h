// One row of the profile study: build, run under a schedule, fold, and write the trace.
//
//   ProfileStudy study(device, {.tracer = tracer.get()});
//   Record record = study.run(workload, {.trace = "trace.json.gz"}, study.describe(workload,
//   blank)).value();
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "measure/record.h"
#include "measure/roofline_model.h"
#include "profile/recorder.h"
#include "studies/model/inputs.h"
#include "studies/step_workload.h"
#include "studies/utilisation.h"

namespace ridgeline {

struct ProfileStudyOptions {
  ProfileSchedule schedule = {};
  AdamWOptions optimizer = {};
  uint64_t seed = 42;
  Json settings = Json::object();          // what else identifies a row
  ActivityTracer* tracer = nullptr;        // of a GPU, opened before the device; null: none
  std::string why_not = {};                // there is none
  std::string why_not_counters = {};       // CUPTI must not sample them; empty: it may
  const Roofline* roofline = nullptr;      // measured ceilings; null: peaks of data sheets
  Bytes keep_on_host = {};                 // see ModelInputOptions::keep
  std::function<bool()> interrupted = {};  // asked between steps
  std::function<void(const std::string&)> stage = {};  // told what a row is at
};

struct ProfileRowOptions {
  std::filesystem::path trace = {};  // where it goes; empty: nowhere
  // No row follows. A tracer can be stopped once in a process, so only then is its cost measured.
  bool is_last = true;
};

class ProfileStudy {
 public:
  ProfileStudy(Device& device, ProfileStudyOptions options);

  Record describe(const StepWorkload& workload, const Record& blank) const;  // nothing is traced
  // Nothing is predicted of other libraries.
  std::optional<Bytes> predicted_peak(const StepWorkload& workload) const;
  double expected_s(const StepWorkload& workload, const Record& described) const;
  // Empty: interrupted.
  std::optional<Record> run(const StepWorkload& workload, const ProfileRowOptions& how,
                            Record described);

 private:
  std::unique_ptr<Executable> build(const StepWorkload& workload) const;
  void begin(const char* stage) const;

  Device& device_;
  ProfileStudyOptions options_;
  ModelInputs inputs_;
  UtilisationMeter meter_;
};

}  // namespace ridgeline
