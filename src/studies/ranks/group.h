// Ranks that run the rows of one backend and size of group: threads of this process, processes that
// we start, or those that a launcher has started together with this one.
#pragma once

#include <algorithm>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "measure/record.h"
#include "studies/ranks/world.h"

namespace ridgeline {

struct RankBackend {
  std::string_view name;
  std::string_view summary;
};
std::span<const RankBackend> rank_backends();
void check_backend(const std::string& name);  // throws a usage error for one that is none

class RankGroup {
 public:
  virtual ~RankGroup() = default;
  // Fills in the results of a row. Throws Interrupted, and an environment error that names the rank
  // that was lost.
  virtual void run(const Json& request, Record& record) = 0;
};

// Of the failures of ranks, by rank and null of those that have none: the first one that is more
// than the loss of another rank, else the first; null: none has failed.
std::exception_ptr cause_of(std::span<const std::exception_ptr> failures);

struct RankGroupOptions {
  std::function<bool()> interrupted = {};
  double patience_s = 3600;  // for one row
};
// Throws an unsupported error for a backend that is not here.
std::unique_ptr<RankGroup> make_rank_group(const std::string& backend, int ranks,
                                           const RankGroupOptions& options);
std::unique_ptr<RankGroup> make_rank_group(World& world, const RankGroupOptions& options);

// The ranks of the row under way: those that a launcher has started, or a group that is started
// when the backend or the number of ranks changes.
class RankGroups {
 public:
  // `world`: null where this program starts the ranks; else the others wait from now on, be it for
  // nothing but the end.
  RankGroups(World* world, RankGroupOptions options);

  // Fills in the results of a row; throws an unsupported error where the backend is not here.
  void run(const Json& request, const std::string& backend, int ranks, Record& record);

  // Of so many ranks, those that share this host: all, unless a launcher says that there are fewer.
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

// By whom hosts talk to each other: the backend itself, or beside NCCL threads of one process, the
// launcher's MPI, or Gloo.
std::string host_backend(const std::string& backend, const LaunchedRank* launched);

// Why a backend cannot serve here, as a record says it; empty: it can. `launched`: null without a
// launcher.
std::string missing_backend(const std::string& backend, const LaunchedRank* launched);

}  // namespace ridgeline
