// The ladder of a model as waterfall charts: the effect of each rung on time, launches and memory.
#pragma once

#include <string>
#include <vector>

#include "report/page/rows.h"

namespace ridgeline {

// Returns the measured rows of one model in one scenario, lowest rung first, without rows that
// equal the one below: on a device without launch graphs, compiled equals flash.
std::vector<const Record*> rungs_of(const std::vector<const Record*>& rows,
                                    const std::string& scenario);

// Needs at least two rungs. Steps without a verdict form a series of their own.
std::vector<Chart> ladder_charts(const ReportContext& context,
                                 const std::vector<const Record*>& rungs,
                                 const std::string& scenario, const std::string& words);

// "compiled takes 9.1 ms for a full training step where vanilla takes 21.3 ms, 2.34x as fast; step
// by step, fusion 1.50x as fast, ... Launches go from 1893 to 210 and memory to 71 %".
std::string ladder_words(const ReportContext& context, const std::vector<const Record*>& rungs,
                         const std::string& scenario, const std::string& words);

}  // namespace ridgeline
