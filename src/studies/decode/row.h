// One row of the decode study: counts, predicts, verifies and times a part of a layer.
//
//   LayerStudy study(device, {.roofline = measured});
//   Record record = study.run(workload, study.describe(workload, blank)).value();
#pragma once

#include <functional>
#include <optional>

#include "measure/record.h"
#include "measure/roofline_model.h"
#include "runtime/device.h"
#include "studies/decode/values.h"
#include "studies/decode/workload.h"
#include "studies/planned_rows.h"
#include "studies/row.h"

namespace ridgeline {

// The ceilings of a device: measured, or of its data sheet.
struct LayerCeilings {
  Roofline roofline;
  bool measured = false;
};
// The measured ceilings, else those of a GPU's data sheet; empty if neither has the dtype.
std::optional<LayerCeilings> layer_ceilings(const std::optional<Roofline>& measured,
                                            const DeviceFacts& facts, std::string_view dtype);

struct LayerStudyOptions {
  RowOptions row = {.protocol = {.warmups = 3, .time_budget_s = 1}};
  bool cold = true;                       // flush the last-level cache before every sample
  std::optional<Roofline> roofline = {};  // measured ceilings; empty: none
};

class LayerStudy {
 public:
  LayerStudy(Device& device, LayerStudyOptions options);

  Record describe(const LayerWorkload& workload, const Record& blank);
  double expected_s(const LayerWorkload& workload, const Record& described) const;
  std::optional<Record> run(const LayerWorkload& workload, Record described);

 private:
  Verification verify(const LayerWorkload& workload, const Executable& executable);

  Device& device_;
  LayerStudyOptions options_;
  LayerValues values_;
  PlannedRows planned_;
};

}  // namespace ridgeline
