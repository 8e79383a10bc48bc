// One rank's part of a row: builds its step, trains in step with the other ranks, and measures.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>

#include "compile/executable.h"
#include "dist/communicator.h"
#include "measure/protocol.h"
#include "measure/record.h"
#include "runtime/rank_device.h"
#include "studies/ddp/workload.h"

namespace ridgeline {

// What rank 0 asks of all ranks.
struct DdpRequest {
  DdpWorkload workload;
  RankDeviceOptions device = {};
  std::optional<Bytes> budget = {};  // of the plan of each rank; none: its device's
  Protocol protocol = {};
  uint64_t seed = 42;
  bool verify = true;
  std::string trace = {};  // file for a step of all ranks; empty: none
};
Json to_json(const DdpRequest& request);

// The series of a row. Each sample holds the maximum over ranks: of the step, of the time in
// collectives, and of the time that computation waited for them.
inline constexpr const char* kDdpStep = "step";
inline constexpr const char* kDdpCommunication = "communication";
inline constexpr const char* kDdpExposed = "exposed";

// A RankTask (studies/ranks/tasks.h). The record holds series, protocol, memory per rank, and as
// metrics the communication, the predicted step (forecast.h) and a hash of the parameters after a
// few steps. Verification compares the hash between ranks that hold whole parameters; shards have
// nothing to compare.
std::string ddp_label(const Json& request);
Record ddp_task(Communicator& communicator, const Json& request,
                const std::function<bool()>& interrupted);

// Combines the hashes of all ranks. Ranks with whole parameters should all have rank 0's; the
// hashes of shards add up to that of whole parameters.
struct ParametersHash {
  uint64_t value = 0;
  bool is_same = true;
};
ParametersHash parameters_hash(std::span<const uint64_t> of_ranks, bool is_sharded);

// The step of one rank, within its budget. Without a communicator it can be planned, but not run.
Trace ddp_trace(const DdpWorkload& workload);
CompileOptions ddp_options(const DdpWorkload& workload, const Device& device,
                           std::optional<Bytes> budget, Communicator* communicator);

}  // namespace ridgeline
