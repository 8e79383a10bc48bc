// Flags that select ranks, --ranks and --backend, and what a launcher has decided instead.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "dist/world.h"
#include "studies/flags.h"
#include "studies/ranks/group.h"
#include "studies/study.h"

namespace ridgeline {

class RankFlags {
 public:
  // `ranks` is the default of --ranks.
  explicit RankFlags(std::vector<int64_t> ranks) : ranks_(std::move(ranks)) {}

  void declare(Flags& flags);
  std::string list_backends() const;  // says how to install missing ones

  // The launcher that has started this process together with others, or nullopt; known after
  // serve().
  const std::optional<LaunchedRank>& launched() const { return launched_; }
  // On ranks other than 0 of a launcher: serves rows until rank 0 stops it, and returns the exit
  // code. Elsewhere returns nullopt.
  std::optional<int> serve(const StudyRun& run, const std::string& configuration, bool dry_run);
  // Returns the world on rank 0 of a launcher, otherwise null.
  World* join(const StudyRun& run, const std::string& configuration);

  // Returns the requested backends, or all that are available and support the memory of `device`
  // (null: host memory). Throws an unsupported error if there is none.
  std::vector<std::string> backends(Device* device) const;
  // Returns the requested numbers of ranks, or the launcher's. Throws a usage error if both differ.
  std::vector<int64_t> ranks() const;
  bool gave_ranks() const { return gave_ranks_; }

  Words asked_backends = {};
  void set_ranks(std::vector<int64_t> ranks) { ranks_ = std::move(ranks); }

 private:
  std::vector<int64_t> ranks_;
  bool gave_ranks_ = false;
  std::optional<LaunchedRank> launched_;
  std::optional<World> world_;
};

}  // namespace ridgeline
