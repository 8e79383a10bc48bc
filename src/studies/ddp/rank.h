// What each rank does for a row: builds its step, trains in step with the others, and counts.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "compile/executable.h"
#include "dist/communicator.h"
#include "measure/protocol.h"
#include "measure/record.h"
#include "runtime/rank_device.h"
#include "studies/ddp/workload.h"

namespace ridgeline {

// What rank 0 asks of all.
struct DdpRequest {
  DdpWorkload workload;
  RankDeviceOptions device = {};
  Protocol protocol = {};
  uint64_t seed = 42;
  bool verify = true;
  std::string trace = {};  // where rank 0 writes a step of all ranks; empty: nowhere
};
Json to_json(const DdpRequest& request);

// In each sample the slowest rank's step, and the most that a rank has spent in collectives, and
// waited for them.
inline constexpr const char* kDdpStep = "step";
inline constexpr const char* kDdpCommunication = "communication";
inline constexpr const char* kDdpExposed = "exposed";

// For studies/ranks/tasks.h. The record has series, protocol, memory of a rank, and as metrics what
// was communicated, what the step should have taken (forecast.h), and a hash of the parameters
// after a few steps, which verification compares between ranks that hold whole parameters; of
// shards there is nothing to compare.
std::string ddp_label(const Json& request);
Record ddp_task(Communicator& communicator, const Json& request,
                const std::function<bool()>& interrupted);

// By the hashes of all ranks: of whole parameters that of rank 0, which all should have; of shards
// the sum, which is that of whole ones.
struct ParametersHash {
  uint64_t value = 0;
  bool is_same = true;
};
ParametersHash parameters_hash(std::span<const uint64_t> of_ranks, bool is_sharded);

// The step of one rank; needs a communicator to run.
Trace ddp_trace(const DdpWorkload& workload);
CompileOptions ddp_options(const DdpWorkload& workload, const Device& device,
                           Communicator* communicator);

}  // namespace ridgeline
