// The device's busy time beside the wall time: what tables and sentences read of it out of records.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"
#include "report/terminal/table.h"

namespace ridgeline {

// Empty: the row does not tell. Null: there is no row.
std::optional<double> busy_ms(const Record* record, std::string_view series);
bool is_host_bound(const Record* record, std::string_view series);
// "True" or "False"; empty where the row does not tell.
std::string host_bound_cell(const Record* record, std::string_view series);

// Whether any row of the study tells.
bool tells_busy_time(std::span<const Record> records, std::string_view study);

// Puts cells behind a column of every row; `cells` has a row for each of the table's. A narrow
// terminal may leave the new columns out.
void insert_after(Table& table, std::string_view column, const std::vector<std::string>& columns,
                  const std::vector<std::vector<std::string>>& cells);

// "Host-bound: in 2 of 8 rows ... (flash forward, ...)"; of rows that are ok. Empty: in none.
std::string host_bound_note(std::span<const Record* const> rows);

}  // namespace ridgeline
