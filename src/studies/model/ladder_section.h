// The ladder of a model as a waterfall: what each rung brought in time, in launches and in memory.
#pragma once

#include <string>
#include <vector>

#include "report/page/rows.h"

namespace ridgeline {

// Rows of one model in one scenario, whatever their order. Empty: fewer than two rungs were
// measured.
std::vector<Chart> ladder_charts(const std::vector<const Record*>& rows,
                                 const std::string& scenario, const std::string& words);

// "compiled takes 9.1 ms for a full training step where vanilla takes 21.3 ms (2.34x as fast), with
// 210 launches instead of 1893 and 0.71 of the memory"; empty as above.
std::string ladder_words(const std::vector<const Record*>& rows, const std::string& scenario,
                         const std::string& words);

// The lowest and the highest rung that were measured in the scenario.
std::pair<const Record*, const Record*> ends_of_ladder(const std::vector<const Record*>& rows,
                                                       const std::string& scenario);

}  // namespace ridgeline
