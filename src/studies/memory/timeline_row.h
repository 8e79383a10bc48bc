// One row of `ridgeline memory --timeline`: memory over the forward pass or a whole step, predicted
// and, where that is asked for and fits, measured.
//
//   TimelineStudy study(device, {.measure = true});
//   Record record = study.run(workload, {.snapshot = "memory.pickle"}, described).value();
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "measure/record.h"
#include "profile/memory_timeline.h"
#include "report/terminal/table.h"
#include "studies/model/inputs.h"
#include "studies/step_workload.h"

namespace ridgeline {

struct TimelineOptions {
  AdamWOptions optimizer = {};
  uint64_t seed = 42;
  bool measure = false;                                // runs one step of every row that fits
  Json settings = Json::object();                      // what else identifies a row
  Bytes keep_on_host = {};                             // see ModelInputOptions::keep
  std::function<bool()> interrupted = {};              // asked before a row is measured
  std::function<void(const std::string&)> stage = {};  // told what a row is at
};

// Where the events of a row go; empty: nowhere.
struct TimelineFiles {
  std::filesystem::path events;    // CSV
  std::filesystem::path snapshot;  // see write_memory_snapshot()
};

// The forward scenario of a timeline is that of training: it keeps what backward needs.
class TimelineStudy {
 public:
  TimelineStudy(Device& device, TimelineOptions options);

  Record describe(const StepWorkload& workload, const Record& blank) const;  // nothing is traced
  Bytes predicted_peak(const StepWorkload& workload) const;
  double expected_s(const StepWorkload& workload, const Record& described) const;
  // A row that is to be measured and does not fit is out of memory, with what was predicted. A file
  // that cannot be written is said in the record. Empty: interrupted.
  std::optional<Record> run(const StepWorkload& workload, const TimelineFiles& files,
                            Record described);

 private:
  std::unique_ptr<Executable> build(const StepWorkload& workload) const;
  void begin(const char* stage) const;

  Device& device_;
  TimelineOptions options_;
  ModelInputs inputs_;
};

// Every event: event, node, scope, phase, bytes (negative: released), live_bytes,
// predicted_live_bytes, op, type.
Table timeline_events(const MemoryTimeline& timeline);

}  // namespace ridgeline
