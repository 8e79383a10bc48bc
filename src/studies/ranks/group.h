// Ranks that run the rows of one backend and group size: threads of this process, processes that it
// starts, or those that a launcher has started together with it.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "measure/record.h"
#include "studies/choices.h"
#include "studies/ranks/world.h"

namespace ridgeline {

struct RankBackend {
  std::string_view name;
  std::string_view summary;
};
extern const Choices<RankBackend> kRankBackends;

class RankGroup {
 public:
  virtual ~RankGroup() = default;
  // Fills in the results of a row. Throws Interrupted, or an environment error that names the lost
  // rank.
  virtual void run(const Json& request, Record& record) = 0;
};

// Given the failures of ranks, by rank and null if there is none: returns the first that is more
// than the loss of another rank, else the first; null if no rank failed.
std::exception_ptr cause_of(std::span<const std::exception_ptr> failures);

struct RankGroupOptions {
  std::function<bool()> interrupted = {};
  double time_limit_s = 3600;  // the time limit of one row
};
// Throws an unsupported error for a backend that is not available.
std::unique_ptr<RankGroup> make_rank_group(const std::string& backend, int ranks,
                                           const RankGroupOptions& options);
std::unique_ptr<RankGroup> make_rank_group(World& world, const RankGroupOptions& options);

// The ranks of the current row: those that a launcher has started, or a group that is restarted
// when the backend or the number of ranks changes.
class RankGroups {
 public:
  // `world` is null if this program starts the ranks. Otherwise the other ranks wait for requests
  // from now on, until the destructor stops them.
  RankGroups(World* world, RankGroupOptions options);

  // Fills in the results of a row; throws an unsupported error if the backend is not available.
  void run(const Json& request, const std::string& backend, int ranks, Record& record);

  // How many of `ranks` share this host: all, unless the launcher reports fewer.
  int ranks_of_host(int ranks) const {
    const int local = world_ ? world_->launched().local_size : 0;
    return local > 0 ? std::min(local, ranks) : ranks;
  }
  std::string launcher() const { return world_ ? world_->launched().launcher : "ridgeline"; }

 private:
  World* world_;
  RankGroupOptions options_;
  std::unique_ptr<RankGroup> group_;
  std::string group_name_;
};

// The backend of host-side communication: the backend itself, or for NCCL the threads of one
// process, the launcher's MPI, or Gloo.
std::string host_backend(const std::string& backend, const LaunchedRank* launched);

// Returns why a backend is not available, in the words of a record; empty: it is. `launched` is
// null without a launcher.
std::string missing_backend(const std::string& backend, const LaunchedRank* launched);

}  // namespace ridgeline
