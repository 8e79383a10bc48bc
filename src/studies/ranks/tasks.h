// The tasks that ranks can run for a row, by the name of the study.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/json.h"
#include "dist/communicator.h"
#include "measure/record.h"

namespace ridgeline {

struct RankTask {
  std::string_view name;  // "task" in a request
  std::string (*label)(const Json& request);
  // Called on all ranks with the same request. The row gets the results of rank 0, and only rank 0
  // checks `interrupted`. Throws Interrupted after all ranks are done.
  Record (*run)(Communicator& communicator, const Json& request,
                const std::function<bool()>& interrupted);
};

const RankTask& find_task(const Json& request);  // throws a usage error

// Copies the results of a task into the record of a row.
void take_results(Record answer, Record& record);

// Returns the value of each rank, on all ranks.
std::vector<double> all_gather_values(Communicator& communicator, double mine);
// Returns the `on` of rank 0, on all ranks.
bool broadcast_continue(Communicator& communicator, bool on);

// Write and read a protocol in a request.
void add_protocol(Json& request, const Protocol& protocol);
Protocol protocol_in(const Json& request);

}  // namespace ridgeline
