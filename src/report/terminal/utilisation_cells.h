// The utilisation of a GPU from records: columns of tables and the notes below them.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"
#include "report/record_columns.h"

namespace ridgeline {

// Returns the member `utilization` of the metrics of a series, or of the row's own metrics if
// `series` is empty. Null if there is none or the row is not ok.
const Json* utilization_in(const Record& record, std::string_view series = {});

// Columns of a CSV, and of a table on the terminal, which has them only if a row has values.
std::vector<RecordColumn> utilisation_csv_columns();
std::vector<RecordColumn> utilisation_columns(std::span<const RecordRow> rows);

// Says why multiprocessors were mostly idle: "multiprocessors had a warp in 3.1 % of cycles: ...".
// `busy_share` is the share of time in which some kernel runs. Returns an empty string if they were
// busy, or if a value is unknown.
std::string low_use_sentence(const Json* utilization, std::optional<double> busy_share);

// Returns what the columns mean, their source, and why better sources failed, each once. Empty if
// no row has utilisation.
std::vector<std::string> utilisation_notes(std::span<const RecordRow> rows);

}  // namespace ridgeline
