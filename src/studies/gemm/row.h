// One row of the gemm study: a product and an implementation.
//
//   GemmStudy study(device, {.roofline = &roofline});
//   Record record = study.run(workload, study.describe(workload, blank)).value();
#pragma once

#include <functional>
#include <optional>

#include "measure/record.h"
#include "measure/roofline_model.h"
#include "runtime/device.h"
#include "studies/gemm/workload.h"
#include "studies/row.h"
#include "studies/utilisation.h"

namespace ridgeline {

struct GemmStudyOptions {
  RowOptions row = {.protocol = {.warmups = 3, .time_budget_s = 1}};
  bool cold = false;                   // flush the last-level cache before every sample
  const Roofline* roofline = nullptr;  // measured; null: only shares of the paper peak
};

class GemmStudy {
 public:
  GemmStudy(Device& device, GemmStudyOptions options);

  // The row without results: its identity and predictions.
  Record describe(const GemmWorkload& workload, const Record& blank) const;

  // The expected time of run(), for progress lines.
  double expected_s(const GemmWorkload& workload, const Record& described) const;

  // Verifies, measures and fills in the results. Out of memory, what the device lacks, wrong values
  // and impossible speeds are statuses of the record. Returns nullopt if interrupted.
  std::optional<Record> run(const GemmWorkload& workload, Record described);

 private:
  // Computes rates and shares from the median, and checks the speed of light.
  void derive(const GemmWorkload& workload, Record& record) const;

  Device& device_;
  GemmStudyOptions options_;
  UtilisationMeter meter_;
};

}  // namespace ridgeline
