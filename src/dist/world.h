// Joins the ranks of a run, checks that they agree, and watches them. A rank ends at once with exit
// code 4 when another one has ended, because its collectives would never return.
//
//   World world(*launched_rank(), {.build = "0.1.0 abc", .configuration = "comm --dtype fp32"});
//   std::unique_ptr<Communicator> communicator = world.communicator("gloo");
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "dist/activity.h"
#include "dist/communicator.h"
#include "dist/launch_environment.h"
#include "dist/store.h"

namespace ridgeline {

struct WorldOptions {
  std::string build;          // must be the same on all ranks
  std::string configuration;  // must be the same on all ranks
  double join_s = 60;         // timeout until all ranks have joined
  double collective_s = 600;  // timeout of one collective
  StoreOptions store = {};
  // Called on the watching thread when a rank has ended or a collective has timed out. Empty: the
  // process exits.
  std::function<void(const std::string& why)> lost = {};
};

class World {
 public:
  // Throws an environment error that names missing ranks, or one that disagrees and in what.
  World(const LaunchedRank& launched, WorldOptions options);
  // Leaves the run, or reports this rank as failed if an exception is propagating. Rank 0 waits for
  // the others to leave.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return launched_.rank; }
  int size() const { return launched_.size; }
  const LaunchedRank& launched() const { return launched_; }
  StoreClient& store() { return *store_; }
  // At which other ranks reach this one.
  const std::string& address() const { return address_; }
  RankActivity& activity() { return *activity_; }

  // `backend`: "gloo", "openmpi" or "mpich" (plugin_backend.h).
  std::unique_ptr<Communicator> communicator(const std::string& backend);

 private:
  class Watch;
  void find_address();

  LaunchedRank launched_;
  WorldOptions options_;
  std::unique_ptr<RankActivity> activity_;
  std::unique_ptr<StoreServer> server_;  // on rank 0
  std::unique_ptr<StoreClient> store_;
  std::unique_ptr<Watch> watch_;
  std::string address_;
  int communicators_ = 0;
  int exceptions_;  // uncaught exceptions at construction
};

inline constexpr const char* kActivityVariable = "RIDGELINE_ACTIVITY";

}  // namespace ridgeline
