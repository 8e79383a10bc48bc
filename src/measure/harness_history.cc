// The part of the harness that needs the history and SQLite; programs that do not call it link
// neither.
#include "measure/baseline_rows.h"
#include "measure/history.h"

namespace ridgeline {

std::vector<BaselineRow> compare_with_baseline(const std::filesystem::path& baseline,
                                               const std::filesystem::path& results,
                                               const std::filesystem::path& history) {
  const History stored(history, Database::Open::existing);
  return baseline_rows(baseline, results, {.axes = harness_axes(), .noise = noise_of(&stored)});
}

}  // namespace ridgeline
