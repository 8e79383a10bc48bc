#include "measure/baseline_rows.h"

#include <fmt/format.h>

#include "measure/read_results.h"

namespace ridgeline {
namespace {

// "saxpy n=1048576".
std::string workload_text(const Record& record) {
  std::string text;
  for (const auto& [key, value] : record.workload.items()) {
    if (!text.empty()) text += ' ';
    text += key == "name" && value.is_string() ? value.get<std::string>()
                                               : fmt::format("{}={}", key, value.dump());
  }
  return text;
}

}  // namespace

StudyAxes harness_axes() {
  return {{"", {"mode"}}};
}

std::vector<BaselineRow> baseline_rows(const std::filesystem::path& baseline,
                                       const std::filesystem::path& results,
                                       const CompareOptions& options) {
  const Comparison comparison =
      compare_records(read_results(baseline).records, read_results(results).records, options);
  std::vector<BaselineRow> rows;
  for (const RowComparison& row : comparison.rows)
    rows.push_back({.workload = workload_text(row.next),
                    .implementation = row.next.implementation,
                    .verdict = row.verdict ? std::string(verdict_name(*row.verdict)) : "",
                    .speedup = row.speedup(),
                    .speedup_low = row.speedup_low(),
                    .speedup_high = row.speedup_high(),
                    .improvement_percent = row.improvement_percent(),
                    .note = row.note,
                    .phase = row.phase});
  return rows;
}

}  // namespace ridgeline
