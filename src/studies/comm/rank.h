// What each rank does for a row: fills its buffer, runs the collective, checks the result and takes
// samples in step with the others.
#pragma once

#include <functional>
#include <iosfwd>
#include <optional>
#include <string>

#include "dist/communicator.h"
#include "dist/world.h"
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

// Fills in series, protocol, verification and the backend that served.
void take_answer(const CommAnswer& answer, const CommRequest& request, Record& record);

// Ranks of a world that take requests through its store: rank 0 sends, and all measure.
class CommWorld {
 public:
  explicit CommWorld(World& world) : world_(world) {}
  CommAnswer ask(const CommRequest& request, const std::function<bool()>& interrupted = {});
  void stop();
  void serve();  // on all other ranks, until they are stopped

 private:
  CommAnswer measure(const CommRequest& request, const std::function<bool()>& interrupted);

  World& world_;
  int requests_ = 0;
  std::unique_ptr<Communicator> communicator_;
};

// The command of a rank that the study has started: rank 0 reads requests in lines and answers each
// with a record in a line. Returns the exit code.
inline constexpr const char* kCommRankCommand = "comm-rank";
int serve_comm_rank(const std::string& build, std::istream& requests, std::ostream& answers);

}  // namespace ridgeline
