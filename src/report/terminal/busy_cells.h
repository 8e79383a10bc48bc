// The device's busy time beside the wall time, read from records for tables and sentences.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"
#include "report/terminal/table.h"

namespace ridgeline {

// Returns nullopt if the busy time was not recorded or `record` is null.
std::optional<double> busy_ms(const Record* record, std::string_view series);
bool is_host_bound(const Record* record, std::string_view series);
// Returns "True" or "False", or an empty string if the busy time was not recorded.
std::string host_bound_cell(const Record* record, std::string_view series);

// Returns whether any row of the study has a busy time.
bool tells_busy_time(std::span<const Record> records, std::string_view study);

// Inserts columns after `column`; `cells` has one entry per row of the table. The new columns are
// spare: a narrow terminal may leave them out.
void insert_after(Table& table, std::string_view column, const std::vector<std::string>& columns,
                  const std::vector<std::vector<std::string>>& cells);

// Names the ok rows that are host-bound: "Host-bound: in 2 of 8 rows ... (flash forward, ...)".
// Returns an empty string if there are none.
std::string host_bound_note(std::span<const Record* const> rows);

}  // namespace ridgeline
