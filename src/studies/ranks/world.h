// Ranks that are processes and run the rows of studies one after another: rank 0 puts a request
// into the store of the run, and all ranks execute it together.
#pragma once

#include <functional>
#include <iosfwd>
#include <memory>
#include <string>

#include "dist/world.h"
#include "measure/record.h"
#include "studies/ranks/tasks.h"

namespace ridgeline {

class RankWorld {
 public:
  explicit RankWorld(World& world) : world_(world) {}
  Record ask(const Json& request, const std::function<bool()>& interrupted = {});
  void stop();
  void serve();  // on all other ranks, until stop()

 private:
  Record run(const Json& request, const std::function<bool()>& interrupted);

  World& world_;
  int requests_ = 0;
  std::unique_ptr<Communicator> communicator_;
};

// The command of a rank that a study has started: rank 0 reads one request per line and answers
// each with one line, a record. Returns the exit code.
inline constexpr const char* kRankCommand = "study-rank";
int serve_rank(const std::string& build, std::istream& requests, std::ostream& answers);

}  // namespace ridgeline
