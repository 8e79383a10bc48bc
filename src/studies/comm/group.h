// Ranks that run the rows of one backend and size of group: threads of this process, processes that
// we start, or those that a launcher has started together with this one.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "measure/record.h"
#include "studies/comm/rank.h"

namespace ridgeline {

class RankGroup {
 public:
  virtual ~RankGroup() = default;
  // Fills in the results of a row. Throws Interrupted, and an environment error that names the rank
  // that was lost.
  virtual void run(const CommRequest& request, Record& record) = 0;
};

struct RankGroupOptions {
  std::function<bool()> interrupted = {};
  double patience_s = 3600;  // for one row
};
// Throws an unsupported error for a backend that is not here.
std::unique_ptr<RankGroup> make_rank_group(const std::string& backend, int ranks,
                                           const RankGroupOptions& options);
std::unique_ptr<RankGroup> make_rank_group(World& world, const RankGroupOptions& options);

// Why a backend cannot serve here, as a record says it; empty: it can. `launched`: null without a
// launcher.
std::string missing_backend(const std::string& backend, const LaunchedRank* launched);

}  // namespace ridgeline
