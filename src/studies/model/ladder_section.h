// The ladder of a model as a waterfall: what each rung brought in time, in launches and in memory.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "report/page/rows.h"

namespace ridgeline {

// Rows of one model in one scenario, from the lowest rung on: those that were measured, and that
// differ from the one below. Where a device has no launch graphs, compiled is flash once more.
std::vector<const Record*> rungs_of(const std::vector<const Record*>& rows,
                                    const std::string& scenario);

// Of two rungs or more; steps that the verdict engine does not decide are a series of their own.
std::vector<Chart> ladder_charts(const ReportContext& context,
                                 const std::vector<const Record*>& rungs,
                                 const std::string& scenario, const std::string& words);

// "compiled takes 9.1 ms for a full training step where vanilla takes 21.3 ms, 2.34x as fast:
// fusion 1.50x as fast, ... Launches go from 1893 to 210 and memory to 71 %".
std::string ladder_words(const ReportContext& context, const std::vector<const Record*>& rungs,
                         const std::string& scenario, const std::string& words);

}  // namespace ridgeline
