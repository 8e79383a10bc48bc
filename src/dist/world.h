// All ranks of a run as one of them sees them: found, agreed and watched. A rank whose peer is gone
// ends at once with exit code 4, because its collectives would never return.
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
  std::string build;  // ranks that differ in one of the two are named
  std::string configuration;
  double join_s = 60;         // until all ranks are there
  double collective_s = 600;  // for one collective
  StoreOptions store = {};
  // Called, on a thread of its own, when the run is lost. If it is empty the process ends.
  std::function<void(const std::string& why)> lost = {};
};

class World {
 public:
  // Throws an environment error: who is missing, who disagrees and in what.
  World(const LaunchedRank& launched, WorldOptions options);
  // Leaves; if an exception is on its way, others are told that this rank has failed. Rank 0 waits
  // for the others to leave.
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return launched_.rank; }
  int size() const { return launched_.size; }
  const LaunchedRank& launched() const { return launched_; }
  StoreClient& store() { return *store_; }
  // Of this rank, by which the others reach it.
  const std::string& address() const { return address_; }
  RankActivity& activity() { return *activity_; }

  // By "gloo", "openmpi" or "mpich" (plugin_backend.h).
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
  int exceptions_;  // that were on their way when it was made
};

inline constexpr const char* kActivityVariable = "RIDGELINE_ACTIVITY";

}  // namespace ridgeline
