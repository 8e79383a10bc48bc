// The utilisation of a GPU from records: columns of tables and the notes below them.
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

// Returns the member `utilization` of the metrics of a series, or of the row's own metrics if
// `series` is empty. Null if there is none or the row is not ok.
const Json* utilization_in(const Record& record, std::string_view series = {});

inline constexpr std::array kUtilisationCsv = {"sm_active_pct", "tensor_active_pct",
                                               "dram_bytes_per_s", "utilization_source"};
std::vector<std::string> utilisation_csv(const Json* utilization);

inline constexpr std::array kUtilisationColumns = {"SM %", "tensor %", "DRAM GB/s"};
std::vector<std::string> utilisation_cells(const Json* utilization);

// Inserts the columns after the share of the peak if any row has values; `utilizations` has one
// entry per row of the table.
void insert_utilisation(Table& table, std::span<const Json* const> utilizations);

// Says why multiprocessors were mostly idle: "multiprocessors had a warp in 3.1 % of cycles: ...".
// `busy_share` is the share of time in which some kernel runs. Returns an empty string if they were
// busy, or if a value is unknown.
std::string low_use_sentence(const Json* utilization, std::optional<double> busy_share);

// Returns what the columns mean, their source, and why better sources failed, each once. Empty if
// no row has utilisation.
std::vector<std::string> utilisation_notes(std::span<const Json* const> utilizations);

}  // namespace ridgeline
