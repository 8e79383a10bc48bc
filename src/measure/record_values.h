// What tables, sentences and rooflines read out of records. Those come from files, so nothing is
// taken for granted.
#pragma once

#include <optional>
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

// The largest error of any tensor in parts of its tolerance, NaN if one is; empty: not checked.
std::optional<double> worst_error(const Record& record);

// Those of a study, with a workload to read.
std::vector<const Record*> rows_of_study(std::span<const Record> records, std::string_view study);

}  // namespace ridgeline
