// Helpers for tests of verdicts: synthetic runs of one row, and the comparison of two sides.
#pragma once

#include <string_view>
#include <vector>

#include "measure/compare.h"
#include "measure/test_support.h"

namespace ridgeline {

inline Record measured(const std::vector<double>& samples) {
  Record record = attention_record({});
  record.series = {series_of("forward", samples)};
  return record;
}

inline NoiseLookup floor_of(double fraction) {
  return [fraction](const Record&, std::string_view) { return NoiseFloor{fraction, "test"}; };
}

// Numbered runs of one row, as --runs makes them.
inline std::vector<Record> runs_of(const std::vector<std::vector<double>>& samples) {
  std::vector<Record> out;
  for (const std::vector<double>& run : samples) {
    out.push_back(measured(run));
    out.back().run = static_cast<int>(out.size());
  }
  return out;
}

inline std::vector<double> around(double ms) {
  std::vector<double> out;
  for (int i = 0; i < 24; ++i) out.push_back(ms * (1 + (i % 2 ? 0.001 : -0.001)));
  return out;
}

inline std::vector<Record> runs_at(const std::vector<double>& medians) {
  std::vector<std::vector<double>> samples;
  for (const double ms : medians) samples.push_back(around(ms));
  return runs_of(samples);
}

inline RowComparison compared(const std::vector<Record>& base, const std::vector<Record>& next,
                              const NoiseLookup& noise = {}) {
  return compare_records(base, next, {.noise = noise}).rows.at(0);
}
inline RowComparison compared(const Record& base, const Record& next,
                              const NoiseLookup& noise = {}) {
  return compare_records({&base, 1}, {&next, 1}, {.noise = noise}).rows.at(0);
}

inline bool is_wrong(const RowComparison& row) {
  return row.verdict == Verdict::faster || row.verdict == Verdict::slower;
}

}  // namespace ridgeline
