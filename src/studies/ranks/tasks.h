// What ranks can be asked to do for a row, by the name of the study that asks.
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
  // Called on all ranks with the same request; the results of the row are those of rank 0, where
  // `interrupted` counts. Throws Interrupted after all ranks are done.
  Record (*run)(Communicator& communicator, const Json& request,
                const std::function<bool()>& interrupted);
};

const RankTask& find_task(const Json& request);  // throws a usage error

// What a task has measured, in the record of a row.
void take_results(Record answer, Record& record);

// The number of each rank, on all ranks.
std::vector<double> gathered(Communicator& communicator, double mine);
// Whether rank 0 goes on; the others wait for its word.
bool goes_on(Communicator& communicator, bool on);

// The keys of a protocol in a request.
void add_protocol(Json& request, const Protocol& protocol);
Protocol protocol_in(const Json& request);

}  // namespace ridgeline
