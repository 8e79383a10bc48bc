// One rank's part of a row: fills its buffer, runs the collective, checks the result and takes
// samples in step with the other ranks.
#pragma once

#include <functional>
#include <string>

#include "dist/communicator.h"
#include "measure/protocol.h"
#include "measure/record.h"
#include "studies/comm/workload.h"

namespace ridgeline {

// What rank 0 asks of all ranks; between processes it is a line of JSON.
struct CommRequest {
  CommWorkload workload;
  Protocol protocol;
  bool verify = true;
};
Json to_json(const CommRequest& request);
CommRequest comm_request(const Json& json);  // throws a usage error

// The series of a row: the slowest rank, the mean of ranks and the fastest rank of each sample.
inline constexpr const char* kCommPhase = "slowest_rank";  // the one that is reported
inline constexpr const char* kMeanRank = "mean_rank";
inline constexpr const char* kFastest = "fastest_rank";

// Measures a collective as a RankTask (studies/ranks/tasks.h). The record holds series, protocol,
// verification and the library behind the backend.
std::string comm_label(const Json& request);
Record comm_task(Communicator& communicator, const Json& request,
                 const std::function<bool()>& interrupted);

}  // namespace ridgeline
