// One row of training on several ranks: one model, one strategy, one backend, one number of ranks.
#pragma once

#include <functional>
#include <optional>

#include "measure/protocol.h"
#include "measure/record.h"
#include "runtime/device.h"
#include "studies/ddp/workload.h"
#include "studies/ranks/group.h"

namespace ridgeline {

struct DdpOptions {
  Protocol protocol;
  uint64_t seed = 42;
  bool verify = true;
  Json settings = Json::object();
  std::string trace = {};  // of one row
  std::function<bool()> interrupted = {};
};

class DdpRunner {
 public:
  // `world`: null where this program starts the ranks.
  DdpRunner(Device& device, DdpOptions options, World* world);

  Record describe(const DdpWorkload& workload, const Record& blank) const;
  double expected_s(const DdpWorkload& workload, const Record& described) const;
  Bytes predicted_peak(const DdpWorkload& workload) const;  // of one rank
  std::optional<Record> run(const DdpWorkload& workload, Record described);

 private:
  Device& device_;
  DdpOptions options_;
  RankGroups groups_;
};

}  // namespace ridgeline
