// Cells of tables and notes below them, out of records.
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

std::optional<double> mebibytes(const std::optional<Bytes>& bytes);

// A member of a record's metrics as text; empty: there is none.
std::string metric_text(const Record& record, const char* key);

// Empty where there is no value.
std::string cell(std::optional<double> value, const char* format = "{:.6g}", double factor = 1);

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
