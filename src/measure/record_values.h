// Reads values out of records for tables, sentences and rooflines. Records come from files, so any
// value may be missing or have another type.
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

// A scalar member as text, not truncated, with booleans as "True" and "False"; empty if missing.
std::string text_of(const Json& object, const char* key);

// A number in the metrics of a phase, such as {"forward": {"mfu": 0.4}}; nullopt if missing.
std::optional<double> metric_in(const std::optional<Json>& metrics, std::string_view phase,
                                const char* name);
std::optional<double> number_in(const Json& object, const char* name);
// A member of the metrics, and a word in those of a phase.
std::optional<double> metric_number(const Record& record, const char* name);
std::string metric_word(const Record& record, std::string_view phase, const char* name);
// A whole number above 0; nullopt for anything else.
std::optional<int64_t> positive_at(const Json& object, const char* key);
// A metric or a statistic of a phase; nullopt also if the row is not ok.
std::optional<double> metric_of(const Record& record, std::string_view phase, const char* name);
std::optional<double> statistic(const Record& record, std::string_view phase,
                                double Statistics::*which);
std::optional<double> median_ms(const Record& record, std::string_view phase);
// Half the width of the median's within-run interval, in percent of the median; nullopt if there is
// no such series or too few samples.
std::optional<double> in_run_percent(const Record& record, std::string_view phase);

// The largest ratio of error to tolerance over all tensors, NaN if one is; nullopt if not checked.
std::optional<double> worst_error(const Record& record);

// Points at the records of a run or at the rows of a report, for functions that read either.
class RecordRefs {
 public:
  template <class Records>
  requires std::convertible_to<const Records&, std::span<const Record>> RecordRefs(
      const Records& records) {
    for (const Record& record : std::span<const Record>(records)) rows_.push_back(&record);
  }
  RecordRefs(std::vector<const Record*> rows = {}) : rows_(std::move(rows)) {}

  auto begin() const { return rows_.begin(); }
  auto end() const { return rows_.end(); }

 private:
  std::vector<const Record*> rows_;
};

// The records of a study whose workload is an object.
std::vector<const Record*> rows_of_study(const RecordRefs& records, std::string_view study);

}  // namespace ridgeline
