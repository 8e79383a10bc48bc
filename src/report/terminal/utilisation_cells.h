// How busy a GPU was, out of records: columns of tables and the notes below them.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"
#include "report/terminal/table.h"

namespace ridgeline {

// The member `utilization` of the metrics of a series, or of the row's own metrics where the series
// has no name. Null: the row has none, or is not ok.
const Json* utilization_in(const Record& record, std::string_view series = {});

inline constexpr std::array kUtilisationCsv = {"sm_active_pct", "tensor_active_pct",
                                               "dram_bytes_per_s", "utilization_source"};
std::vector<std::string> utilisation_csv(const Json* utilization);

inline constexpr std::array kUtilisationColumns = {"SM %", "tensor %", "DRAM GB/s"};
std::vector<std::string> utilisation_cells(const Json* utilization);

// Puts the columns behind that of the share of the peak, if any row tells; `utilizations` has one
// for each row of the table.
void insert_utilisation(Table& table, std::span<const Json* const> utilizations);

// Why multiprocessors were mostly without work: "multiprocessors had a warp in 3.1 % of cycles:
// ...". `busy_share`: of the time in which some kernel runs. Empty where they were not, or nobody
// knows.
std::string low_use_sentence(const Json* utilization, std::optional<double> busy_share);

// What the columns are and where they come from, and why not from a better source; each once. None
// where no row tells.
std::vector<std::string> utilisation_notes(std::span<const Json* const> utilizations);

}  // namespace ridgeline
