// One row of the ddp study: a model, a strategy, a backend and a number of ranks.
#pragma once

#include <optional>

#include "measure/record.h"
#include "runtime/device.h"
#include "studies/ddp/workload.h"
#include "studies/ranks/group.h"
#include "studies/row.h"

namespace ridgeline {

struct DdpOptions {
  RowOptions row = {};
  std::string trace = {};  // file for the trace of the only row
};

class DdpRunner {
 public:
  // `world` is null if this program starts the ranks.
  DdpRunner(Device& device, DdpOptions options, World* world);

  Record describe(const DdpWorkload& workload, const Record& blank) const;
  double expected_s(const DdpWorkload& workload, const Record& described) const;
  Bytes predicted_peak(const DdpWorkload& workload) const;  // per rank
  // How many ranks share the memory of the device.
  int64_t ranks_per_device(const DdpWorkload& workload) const;
  std::optional<Record> run(const DdpWorkload& workload, Record described);

 private:
  Bytes budget(const DdpWorkload& workload) const;  // per rank

  Device& device_;
  DdpOptions options_;
  RankGroups groups_;
};

}  // namespace ridgeline
