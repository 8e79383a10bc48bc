// Rows of the kernel study for the user's kernel, which runs in a separate process.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "runtime/device.h"
#include "studies/kernel/row.h"
#include "studies/peers/tensors.h"
#include "studies/peers/worker.h"

namespace ridgeline {

struct OwnKernel {
  std::filesystem::path source;
  std::string entry;
  double time_limit_s = 10;               // for the first run, and for a batch of samples
  std::vector<std::string> worker_words;  // the command line of serve_own_kernel()
};

class OwnKernelStudy {
 public:
  // Throws a usage error for a source that cannot be read.
  OwnKernelStudy(Device& device, OwnKernel kernel, KernelStudyOptions options);

  // Compile errors, hangs, faults, out-of-bounds writes and wrong values become statuses of the
  // record, with the reason. Returns nullopt if interrupted.
  std::optional<Record> run(const KernelWorkload& workload, Record described);

 private:
  Worker& worker();
  std::optional<Json> compile(const KernelWorkload& workload);

  Device& device_;
  OwnKernel kernel_;
  KernelStudyOptions options_;
  std::string source_;
  WorkerTensors tensors_;
  std::unique_ptr<Worker> worker_;
  std::map<std::string, Error> failed_problems_;  // problems that are not retried, with the reason
};

}  // namespace ridgeline
