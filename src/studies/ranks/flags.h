// Which ranks a study uses: --ranks and --backend, and what a launcher has decided.
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
  // `ranks`: where none were asked for.
  explicit RankFlags(std::vector<int64_t> ranks) : ranks_(std::move(ranks)) {}

  void declare(Flags& flags, const std::string& ranks_help = "how many");
  std::string list_backends() const;  // with how to get those that are missing

  // The launcher that has started this process beside others; empty: there is none.
  const std::optional<LaunchedRank>& find_launcher();
  const std::optional<LaunchedRank>& launched() const { return launched_; }
  // The rank's part of a launcher's run, if it is not rank 0, which leads: serves rows until the
  // end.
  std::optional<int> serve(const StudyRun& run, const std::string& configuration, bool dry_run);
  // On rank 0 of a launcher: the world; elsewhere null.
  World* join(const StudyRun& run, const std::string& configuration);

  // As asked for, or all that are here and serve the memory of a device; null: of the host. Throws
  // an unsupported error where none is.
  std::vector<std::string> backends(Device* device) const;
  // As asked for; those of a launcher. Throws a usage error where both differ.
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
