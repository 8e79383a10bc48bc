// Columns of tables whose rows are records, or one series of each. A cell is empty where its value
// is missing, and figures are missing from rows that are not ok.
//
//   table_of<RecordRow>("gemm", {{"op", workload_cell("op")},
//                                {"median ms", statistic_cell(&Statistics::median_ms, "{:.4f}")},
//                                {"GFLOP/s", metric_cell("gflops_per_s", "{:.1f}")},
//                                {"status", status_cell}}, record_rows(rows, "forward"));
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record_values.h"
#include "report/record_cells.h"
#include "report/terminal/columns.h"

namespace ridgeline {

struct RecordRow {
  const Record* record;
  std::string_view series = {};
};
using RecordCell = std::function<std::string(const RecordRow&)>;
using RecordColumn = Column<RecordRow>;

// All with the same series.
std::vector<RecordRow> record_rows(const RecordRefs& records, std::string_view series = {});

RecordCell workload_cell(const char* key);
// Columns that have the names of these members.
std::vector<RecordColumn> workload_columns(const std::vector<const char*>& keys);
RecordCell setting_cell(const char* key);
// A member of the record's metrics as text, or as a number.
RecordCell metric_text_cell(const char* key);
RecordCell number_cell(const char* name, const char* format = "{:.6g}", double factor = 1);
// A number or a word in the metrics of the row's series.
RecordCell metric_cell(const char* name, const char* format = "{:.6g}", double factor = 1);
RecordCell word_cell(const char* name);
// Of the row's series.
RecordCell statistic_cell(double Statistics::*which, const char* format = "{:.6g}",
                          double factor = 1);
// The median of any series.
RecordCell median_cell(const char* series, const char* format = "{:.6g}");
// Counts of the forward cost, whole or formatted: MACs, FLOPs.
RecordCell cost_cell(int64_t PhaseCost::*which, const char* format = nullptr, double factor = 1);
RecordCell memory_cell(std::optional<Bytes> MemoryFacts::*which, const char* format = "{:.6g}");

std::string implementation_cell(const RecordRow& row);
std::string device_cell(const RecordRow& row);
std::string series_cell(const RecordRow& row);
std::string cost_bytes_cell(const RecordRow& row);
std::string cost_mebibytes_cell(const RecordRow& row);
std::string in_run_cell(const RecordRow& row);     // +-%
std::string max_error_cell(const RecordRow& row);  // of the first tensor
std::string error_over_tolerance_cell(const RecordRow& row);
std::string status_cell(const RecordRow& row);
std::string error_cell(const RecordRow& row);

}  // namespace ridgeline
