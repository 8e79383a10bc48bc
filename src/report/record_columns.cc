#include "report/record_columns.h"

#include <fmt/format.h>

#include <cmath>

namespace ridgeline {

std::vector<RecordRow> record_rows(const RecordRefs& records, std::string_view series) {
  std::vector<RecordRow> rows;
  for (const Record* record : records) rows.push_back({record, series});
  return rows;
}

RecordCell workload_cell(const char* key) {
  return [key](const RecordRow& row) { return text_of(row.record->workload, key); };
}

std::vector<RecordColumn> workload_columns(const std::vector<const char*>& keys) {
  std::vector<RecordColumn> columns;
  for (const char* key : keys) columns.push_back({key, workload_cell(key)});
  return columns;
}

RecordCell setting_cell(const char* key) {
  return [key](const RecordRow& row) { return text_of(row.record->settings, key); };
}

RecordCell metric_text_cell(const char* key) {
  return [key](const RecordRow& row) { return metric_text(*row.record, key); };
}

RecordCell number_cell(const char* name, const char* format, double factor) {
  return
      [=](const RecordRow& row) { return cell(metric_number(*row.record, name), format, factor); };
}

RecordCell metric_cell(const char* name, const char* format, double factor) {
  return [=](const RecordRow& row) {
    return cell(metric_of(*row.record, row.series, name), format, factor);
  };
}

RecordCell word_cell(const char* name) {
  return [name](const RecordRow& row) { return metric_word(*row.record, row.series, name); };
}

RecordCell statistic_cell(double Statistics::*which, const char* format, double factor) {
  return [=](const RecordRow& row) {
    return cell(statistic(*row.record, row.series, which), format, factor);
  };
}

RecordCell median_cell(const char* series, const char* format) {
  return [=](const RecordRow& row) { return cell(median_ms(*row.record, series), format); };
}

RecordCell cost_cell(int64_t PhaseCost::*which, const char* format, double factor) {
  return [=](const RecordRow& row) {
    if (!row.record->cost) return std::string();
    const int64_t count = row.record->cost->forward.*which;
    return format ? cell(static_cast<double>(count), format, factor) : fmt::to_string(count);
  };
}

RecordCell memory_cell(std::optional<Bytes> MemoryFacts::*which, const char* format) {
  return [=](const RecordRow& row) { return cell(mebibytes(row.record->memory.*which), format); };
}

std::string implementation_cell(const RecordRow& row) {
  return row.record->implementation;
}

std::string device_cell(const RecordRow& row) {
  return row.record->device;
}

std::string series_cell(const RecordRow& row) {
  return std::string(row.series);
}

std::string cost_bytes_cell(const RecordRow& row) {
  return row.record->cost ? fmt::to_string(row.record->cost->forward.bytes.count) : std::string();
}

std::string cost_mebibytes_cell(const RecordRow& row) {
  if (!row.record->cost) return {};
  return cell(row.record->cost->forward.bytes.mebibytes(), "{:.4g}");
}

std::string in_run_cell(const RecordRow& row) {
  if (row.record->status != Status::ok) return {};
  return cell(in_run_percent(*row.record, row.series), "{:.1f}");
}

std::string max_error_cell(const RecordRow& row) {
  const Verification& verification = row.record->verification;
  if (!verification.checked || verification.tensors.empty()) return {};
  const double error = verification.tensors[0].max_error;
  return std::isfinite(error) ? cell(error) : std::string();
}

std::string error_over_tolerance_cell(const RecordRow& row) {
  const std::optional<double> worst = worst_error(*row.record);
  return worst && std::isfinite(*worst) ? cell(worst, "{:.2f}") : std::string();
}

std::string status_cell(const RecordRow& row) {
  return std::string(status_csv_word(row.record->status));
}

std::string error_cell(const RecordRow& row) {
  return row.record->error;
}

}  // namespace ridgeline
