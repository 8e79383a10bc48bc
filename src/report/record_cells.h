// Makes table cells, and the notes below tables, from records.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record_values.h"

namespace ridgeline {

// Returns the median of a series in milliseconds, or nullopt if it was not measured or the row
// failed; a row that ran out of memory keeps the series that fitted.
std::optional<double> median_of(const Record& record, std::string_view series);

std::optional<double> mebibytes(const std::optional<Bytes>& bytes);

// Returns a member of the record's metrics as text, or an empty string if there is none.
std::string metric_text(const Record& record, const char* key);

// Formats factor * value; returns an empty string if there is no value.
std::string cell(std::optional<double> value, const char* format = "{:.6g}", double factor = 1);

// "1 row", "12 rows".
std::string counted(size_t count, std::string_view thing);

// Adds a text unless it is empty or there already.
void add_once(std::vector<std::string>& texts, std::string text);

// Returns what the intervals of these rows cover: "within-run" (the samples of one run), "between
// runs" (the medians of several), or both.
std::string interval_kind(std::span<const Record* const> rows);

// Names rows of a study: "flash (two-pass)" if its rows of `flash` use several backward algorithms,
// else the name of the implementation.
class VariantNames {
 public:
  explicit VariantNames(const RecordRefs& records, std::string_view study);
  std::string of(const Record& record) const;

 private:
  std::map<std::string, std::set<std::string>> variants_;
};

// Counts ok rows whose medians are not well known: "Noisy: in 2 rows ...", "Too few samples in 1
// row: ...". Returns an empty string if there are none.
std::string noise_note(std::span<const Record* const> rows);

}  // namespace ridgeline
