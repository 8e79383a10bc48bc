#include "report/record_cells.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/compare.h"
#include "measure/statistics.h"

namespace ridgeline {
namespace {

constexpr double kWellKnown = 0.05;  // largest half-width of a median's interval over the median

size_t rows_with(std::span<const Record* const> rows,
                 bool (*holds)(const Record&, const Statistics&)) {
  return static_cast<size_t>(std::count_if(rows.begin(), rows.end(), [&](const Record* record) {
    return record->status == Status::ok &&
           std::any_of(record->series.begin(), record->series.end(), [&](const Series& series) {
             return is_compared(series.name) && holds(*record, series.statistics);
           });
  }));
}

// Merged runs are exempt: a verdict needs fewer runs than an interval of their median does.
bool is_too_short(const Record& record, const Statistics& statistics) {
  return record.merged_runs == 0 && statistics.count < kMinIntervalSamples;
}

bool is_noisy(const Record& record, const Statistics& statistics) {
  const double half_width =
      record.merged_runs > 0
          ? (statistics.median_high_ms - statistics.median_low_ms) / 2 / statistics.median_ms
          : relative_half_width(statistics);
  return !is_too_short(record, statistics) && !(half_width <= kWellKnown);
}

}  // namespace

std::optional<double> median_of(const Record& record, std::string_view name) {
  // A model whose full step ran out of memory keeps the times of the scenarios that fitted.
  const bool counts = record.status == Status::ok || record.status == Status::oom;
  const Series* series = counts ? record.find_series(name) : nullptr;
  if (!series || !std::isfinite(series->statistics.median_ms)) return std::nullopt;
  return series->statistics.median_ms;
}

std::optional<double> mebibytes(const std::optional<Bytes>& bytes) {
  return bytes ? std::optional(bytes->mebibytes()) : std::nullopt;
}

std::string metric_text(const Record& record, const char* key) {
  return record.metrics ? text_of(*record.metrics, key) : std::string();
}

std::string cell(std::optional<double> value, const char* format, double factor) {
  return value ? fmt::format(fmt::runtime(format), factor * *value) : std::string();
}

std::string counted(size_t count, std::string_view thing) {
  return fmt::format("{} {}{}", count, thing, count == 1 ? "" : "s");
}

void add_once(std::vector<std::string>& texts, std::string text) {
  if (!text.empty() && std::find(texts.begin(), texts.end(), text) == texts.end())
    texts.push_back(std::move(text));
}

std::string interval_kind(std::span<const Record* const> rows) {
  const auto is_merged = [](const Record* record) { return record->merged_runs > 0; };
  if (std::none_of(rows.begin(), rows.end(), is_merged)) return "within-run";
  return std::all_of(rows.begin(), rows.end(), is_merged) ? "between runs"
                                                          : "within-run or between runs";
}

VariantNames::VariantNames(const RecordRefs& records, std::string_view study) {
  for (const Record* record : rows_of_study(records, study))
    variants_[record->implementation].insert(text_of(record->settings, "backward"));
}

std::string VariantNames::of(const Record& record) const {
  const auto found = variants_.find(record.implementation);
  const std::string variant = text_of(record.settings, "backward");
  if (found == variants_.end() || found->second.size() < 2 || variant.empty())
    return record.implementation;
  return fmt::format("{} ({})", record.implementation, variant);
}

std::string noise_note(std::span<const Record* const> rows) {
  std::string text;
  if (const size_t noisy = rows_with(rows, is_noisy); noisy > 0)
    text = fmt::format(
        "Noisy: in {} a median is not known to within {:.0f} % {}; take ratios there as rough",
        counted(noisy, "row"), 100 * kWellKnown, interval_kind(rows));
  if (const size_t few = rows_with(rows, is_too_short); few > 0)
    text += fmt::format("{}Too few samples in {}: fewer than {} give no interval and no verdict",
                        text.empty() ? "" : ". ", counted(few, "row"), kMinIntervalSamples);
  return text;
}

}  // namespace ridgeline
