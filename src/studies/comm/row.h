// One row of the comm study: a collective, a size, a backend and a number of ranks.
#pragma once

#include <optional>

#include "measure/record.h"
#include "runtime/device.h"
#include "studies/comm/workload.h"
#include "studies/ranks/group.h"
#include "studies/row.h"

namespace ridgeline {

class CommRunner {
 public:
  // `world` is null if this program starts the ranks.
  CommRunner(Device& device, RowOptions options, World* world);

  Record describe(const CommWorkload& workload, const Record& blank) const;
  double expected_s(const CommWorkload& workload, const Record& described) const;
  std::optional<Record> run(const CommWorkload& workload, Record described);

 private:
  Device& device_;
  RowOptions options_;
  RankGroups groups_;
};

}  // namespace ridgeline
