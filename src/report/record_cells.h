// What tables and sentences read out of records. Those come from files, so nothing is taken for
// granted.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

// A member as text, whole: "True" and "False" for booleans; empty: there is none.
std::string text_of(const Json& object, const char* key);

// A number in the metrics of a phase, such as {"forward": {"mfu": 0.4}}; empty: there is none.
std::optional<double> metric_in(const std::optional<Json>& metrics, std::string_view phase,
                                const char* name);
std::optional<double> number_in(const Json& object, const char* name);
// The same, and a statistic, of a row that is ok.
std::optional<double> metric_of(const Record& record, std::string_view phase, const char* name);
std::optional<double> statistic(const Record& record, std::string_view phase,
                                double Statistics::*which);
// Half the width of the interval of the median, in percent of it: what the samples of this run
// tell, not how far other runs may lie apart. Empty: no such row or series, or too few samples.
std::optional<double> in_run_percent(const Record& record, std::string_view phase);
std::optional<double> mebibytes(const std::optional<Bytes>& bytes);

// The largest error of any tensor in parts of its tolerance, NaN if one is; empty: not checked.
std::optional<double> worst_error(const Record& record);

// Empty where there is no value.
std::string cell(std::optional<double> value, const char* format = "{:.6g}", double factor = 1);

// Those of a study, with a workload to read.
std::vector<const Record*> rows_of_study(std::span<const Record> records, std::string_view study);

// A measured ceiling moves by as much from run to run; what is further above says that it was
// measured too low.
inline constexpr double kCeilingSlack = 1.05;

// What the intervals of these rows are: "within-run", from the samples of one run, "between runs",
// from the medians of several, or both.
std::string interval_kind(std::span<const Record* const> rows);

// What tells apart rows that one name stands for: "flash (two-pass)" among those of a study, whose
// rows of that name have several algorithms; else the name alone.
class VariantNames {
 public:
  explicit VariantNames(std::span<const Record> records, std::string_view study);
  std::string of(const Record& record) const;

 private:
  std::map<std::string, std::set<std::string>> variants_;
};

// How well medians are known: "Noisy: in 2 rows ...", "Too few samples: 1 row
// ..."; of rows that are ok. Empty: all are well known.
std::string noise_note(std::span<const Record* const> rows);

}  // namespace ridgeline
