// One row of the kernel study: one attention kernel, one shape, one measurement mode.
//
//   KernelStudy study(device, {.backward = true});
//   Record record = study.run(workload, study.describe(workload, blank)).value();
#pragma once

#include <optional>
#include <string>

#include "measure/record.h"
#include "runtime/device.h"
#include "studies/kernel/workload.h"
#include "studies/row.h"
#include "studies/utilisation.h"

namespace ridgeline {

class KernelCalls;

struct KernelStudyOptions {
  RowOptions row = {.protocol = {.warmups = 200, .iterations = 500}};
  bool backward = false;  // time the gradient too
  // Back-to-back calls per sample: several keep a GPU's queue filled, so that the time is the
  // kernel's and not its launch latency. 0: 10 on a GPU, 1 on a CPU.
  int calls_per_sample = 0;
  int graph_calls = 20;  // in one launch graph
};

class KernelStudy {
 public:
  KernelStudy(Device& device, KernelStudyOptions options);

  // Returns the row without results: its identity and its predictions. `blank` holds the facts that
  // all rows share, such as the cache sizes of a CPU.
  Record describe(const KernelWorkload& workload, const Record& blank) const;

  // The expected duration of the run, for progress lines.
  double expected_s(const KernelWorkload& workload, const Record& described) const;

  // Verifies, measures and fills in the results; nullopt if interrupted. Out of memory, modes and
  // dtypes that the device lacks, wrong values and impossible speeds become statuses of the record.
  // Consecutive modes of one problem share one check against the oracle.
  std::optional<Record> run(const KernelWorkload& workload, Record described);

 private:
  const Verification& verify(const KernelWorkload& workload, KernelCalls& calls);

  Device& device_;
  KernelStudyOptions options_;
  UtilisationMeter meter_;
  std::string verified_problem_;  // the label of the problem that `verification_` belongs to
  Verification verification_;
};

}  // namespace ridgeline
