// One row of `ridgeline memory --timeline`: memory over the forward pass or a whole step, predicted
// and, if requested and within the budget, measured.
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
#include "studies/row.h"
#include "studies/step_workload.h"

namespace ridgeline {

struct TimelineOptions {
  RowOptions row = {};
  AdamWOptions optimizer = {};
  bool measure = false;     // runs one step of every row that fits
  Bytes keep_on_host = {};  // see ModelInputOptions::keep
};

// The files that receive the events of a row; an empty path: none.
struct TimelineFiles {
  std::filesystem::path events;    // CSV
  std::filesystem::path snapshot;  // see write_memory_snapshot()
};

// In timelines the scenario forward is that of training: it keeps what backward needs.
class TimelineStudy {
 public:
  TimelineStudy(Device& device, TimelineOptions options);

  Record describe(const StepWorkload& workload, const Record& blank) const;  // traces nothing
  Bytes predicted_peak(const StepWorkload& workload) const;
  double expected_s(const StepWorkload& workload, const Record& described) const;
  // A row that cannot be measured within the budget is out of memory and keeps its predictions. The
  // record names files that could not be written. Returns nullopt if interrupted.
  std::optional<Record> run(const StepWorkload& workload, const TimelineFiles& files,
                            Record described);

 private:
  std::unique_ptr<Executable> build(const StepWorkload& workload) const;

  Device& device_;
  TimelineOptions options_;
  ModelInputs inputs_;
};

// One line per event: event, node, scope, phase, bytes (negative: released), live_bytes,
// predicted_live_bytes, op, type.
Table timeline_events(const MemoryTimeline& timeline);

}  // namespace ridgeline
