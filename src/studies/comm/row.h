// One row of the comm study: a collective, a size, a backend and a number of ranks.
#pragma once

#include <functional>
#include <optional>

#include "measure/protocol.h"
#include "measure/record.h"
#include "runtime/device.h"
#include "studies/comm/workload.h"
#include "studies/ranks/group.h"

namespace ridgeline {

struct CommOptions {
  Protocol protocol;
  uint64_t seed = 42;
  bool verify = true;
  Json settings = Json::object();
  std::function<bool()> interrupted = {};
};

class CommRunner {
 public:
  // `world` is null if this program starts the ranks.
  CommRunner(Device& device, CommOptions options, World* world);

  Record describe(const CommWorkload& workload, const Record& blank) const;
  double expected_s(const CommWorkload& workload, const Record& described) const;
  std::optional<Record> run(const CommWorkload& workload, Record described);

 private:
  Device& device_;
  CommOptions options_;
  RankGroups groups_;
};

}  // namespace ridgeline
