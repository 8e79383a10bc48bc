// One row of the study of collectives: one collective, one size, one backend, one number of ranks.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "measure/protocol.h"
#include "measure/record.h"
#include "runtime/device.h"
#include "studies/comm/group.h"
#include "studies/comm/workload.h"

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
  // `world`: null where this program starts the ranks.
  CommRunner(Device& device, CommOptions options, World* world);

  Record describe(const CommWorkload& workload, const Record& blank) const;
  double expected_s(const CommWorkload& workload, const Record& described) const;
  std::optional<Record> run(const CommWorkload& workload, Record described);

 private:
  // The ranks that serve a row; those of the row before are ended, if they are others.
  RankGroup& group_of(const CommWorkload& workload);

  Device& device_;
  CommOptions options_;
  World* world_;
  std::unique_ptr<RankGroup> group_;
  std::string group_name_;
};

}  // namespace ridgeline
