// What each rank does for a row: fills its buffer, runs the collective, checks the result and takes
// samples in step with the others.
#pragma once

#include <functional>
#include <string>

#include "dist/communicator.h"
#include "measure/protocol.h"
#include "measure/record.h"
#include "studies/comm/workload.h"

namespace ridgeline {

// What rank 0 asks of all, as a line of JSON between processes.
struct CommRequest {
  CommWorkload workload;
  Protocol protocol;
  bool verify = true;
};
Json to_json(const CommRequest& request);
CommRequest comm_request(const Json& json);  // throws a usage error

// The series of a row: in each sample the slowest rank, the mean of ranks and the fastest.
inline constexpr const char* kSlowest = "slowest_rank";
inline constexpr const char* kMeanRank = "mean_rank";
inline constexpr const char* kFastest = "fastest_rank";

struct CommAnswer {
  Measurement measurement;  // on rank 0; empty elsewhere
  double max_error = 0;     // of any rank, against the exact result
  std::string library;
};
// Called by all ranks with the same request. `interrupted` counts on rank 0.
CommAnswer measure_collective(Communicator& communicator, const CommRequest& request,
                              const std::function<bool()>& interrupted = {});

// The same as ranks are asked for it (studies/ranks/tasks.h): series, protocol, verification and
// the library that served.
std::string comm_label(const Json& request);
Record comm_task(Communicator& communicator, const Json& request,
                 const std::function<bool()>& interrupted);

}  // namespace ridgeline
