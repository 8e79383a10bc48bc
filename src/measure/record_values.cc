#include "measure/record_values.h"

#include <fmt/format.h>

#include <cmath>

#include "base/larger.h"
#include "measure/statistics.h"

namespace ridgeline {

std::string text_of(const Json& object, const char* key) {
  const Json* found = object.find_key(key);
  if (!found) return {};
  if (found->is_string()) return found->get<std::string>();
  if (found->is_boolean()) return found->get<bool>() ? "True" : "False";
  if (found->is_number_unsigned()) return fmt::to_string(found->get<uint64_t>());
  if (found->is_number_integer()) return fmt::to_string(found->get<int64_t>());
  return found->is_number() ? fmt::format("{:.6g}", found->get<double>()) : std::string();
}

std::optional<double> metric_in(const std::optional<Json>& metrics, std::string_view phase,
                                const char* name) {
  const Json* of = metrics ? metrics->find_key(phase) : nullptr;
  return of ? number_in(*of, name) : std::nullopt;
}

std::optional<double> number_in(const Json& object, const char* name) {
  const Json* found = object.find_key(name);
  return found && found->is_number() ? std::optional(found->get<double>()) : std::nullopt;
}

std::optional<double> metric_number(const Record& record, const char* name) {
  return record.metrics ? number_in(*record.metrics, name) : std::nullopt;
}

std::string metric_word(const Record& record, std::string_view phase, const char* name) {
  const Json* of = record.metrics ? record.metrics->find_key(phase) : nullptr;
  return of ? text_of(*of, name) : std::string();
}

std::optional<int64_t> positive_at(const Json& object, const char* key) {
  const Json* found = object.find_key(key);
  if (!found || !found->is_number_integer()) return std::nullopt;
  const auto value = object.value(key, int64_t{0});
  return value > 0 ? std::optional(value) : std::nullopt;
}

std::optional<double> metric_of(const Record& record, std::string_view phase, const char* name) {
  return record.status == Status::ok ? metric_in(record.metrics, phase, name) : std::nullopt;
}

std::optional<double> statistic(const Record& record, std::string_view phase,
                                double Statistics::*which) {
  const Series* series = record.status == Status::ok ? record.find_series(phase) : nullptr;
  if (!series || !std::isfinite(series->statistics.*which)) return std::nullopt;
  return series->statistics.*which;
}

std::optional<double> median_ms(const Record& record, std::string_view phase) {
  return statistic(record, phase, &Statistics::median_ms);
}

std::optional<double> in_run_percent(const Record& record, std::string_view phase) {
  const Series* series = record.find_series(phase);
  const double half_width = series ? relative_half_width(series->statistics) : INFINITY;
  if (!std::isfinite(half_width)) return std::nullopt;
  return 100 * half_width;
}

std::optional<double> worst_error(const Record& record) {
  std::optional<double> worst;
  for (const TensorError& tensor : record.verification.tensors) {
    // A result that has to be exact, and is.
    const bool is_exact = tensor.max_error == 0 && tensor.tolerance == 0;
    worst = larger(worst.value_or(0), is_exact ? 0 : tensor.max_error / tensor.tolerance);
  }
  return record.verification.checked ? worst : std::nullopt;
}

std::vector<const Record*> rows_of_study(const RecordRefs& records, std::string_view study) {
  std::vector<const Record*> rows;
  for (const Record* record : records)
    if (record->study == study && record->workload.is_object()) rows.push_back(record);
  return rows;
}

}  // namespace ridgeline
