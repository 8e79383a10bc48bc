// One row of the kernel study: one attention kernel, one shape, one way of measuring.
//
//   KernelStudy study(device, {.backward = true});
//   Record record = study.run(workload, study.describe(workload, blank)).value();
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "measure/protocol.h"
#include "measure/record.h"
#include "runtime/device.h"
#include "studies/kernel/workload.h"
#include "studies/utilisation.h"

namespace ridgeline {

class KernelCalls;

struct KernelStudyOptions {
  Protocol protocol = {.warmups = 200, .iterations = 500};
  uint64_t seed = 42;
  bool verify = true;
  bool backward = false;  // time the gradient too
  // A sample of back-to-back calls is this many of them, so that a GPU's queue stays filled and the
  // time is the kernel's, not that of its launch. 0: 10 on a GPU, 1 on a CPU.
  int calls_per_sample = 0;
  int graph_calls = 20;            // in one launch graph
  Json settings = Json::object();  // what else identifies a row, such as how kernels were tuned
  std::function<bool()> interrupted = {};  // asked between samples
};

class KernelStudy {
 public:
  KernelStudy(Device& device, KernelStudyOptions options);

  // The row without results: what identifies it, and what was predicted. `blank` brings the facts
  // that all rows share; the caches of a CPU are among them.
  Record describe(const KernelWorkload& workload, const Record& blank) const;

  // Of the run, for progress lines.
  double expected_s(const KernelWorkload& workload, const Record& described) const;

  // Verifies, measures and fills in the results. Out of memory, modes and dtypes that the device
  // lacks, wrong values and impossible speeds are statuses of the record. Empty when interrupted.
  // The check against the oracle is made once for consecutive modes of one problem.
  std::optional<Record> run(const KernelWorkload& workload, Record described);

 private:
  const Verification& verify(KernelWorkload problem, KernelCalls& calls);

  Device& device_;
  KernelStudyOptions options_;
  UtilisationMeter meter_;
  std::string verified_problem_;  // the label of what `verification_` is about
  Verification verification_;
};

}  // namespace ridgeline
