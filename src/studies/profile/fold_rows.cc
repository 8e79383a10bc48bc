#include "studies/profile/fold_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "measure/record_values.h"
#include "profile/category.h"
#include "studies/profile/metrics.h"

namespace ridgeline {
namespace {

struct Number {
  const char* name;
  std::optional<double> FoldRow::*value;
};
constexpr Number kNumbers[] = {{"kernels", &FoldRow::kernels},
                               {"invocations", &FoldRow::invocations},
                               {"total_ms", &FoldRow::total_ms},
                               {"mean_us", &FoldRow::mean_us},
                               {"share", &FoldRow::share},
                               {"flops_per_s", &FoldRow::flops_per_s},
                               {"bytes_per_s", &FoldRow::bytes_per_s},
                               {"predicted_us", &FoldRow::predicted_us},
                               {"roof_share", &FoldRow::roof_share},
                               {"prediction_error", &FoldRow::prediction_error},
                               {"imbalance", &FoldRow::imbalance}};

FoldRow read_row(const Json& json) {
  FoldRow row;
  row.key = text_of(json, "key");
  row.phase = text_of(json, "phase");
  row.category = text_of(json, "category");
  row.scope = text_of(json, "scope");
  for (const Number& number : kNumbers)
    if (const auto value = number_in(json, number.name); value && std::isfinite(*value))
      row.*number.value = value;
  return row;
}

}  // namespace

std::vector<FoldRow> fold_rows(const Record& record, std::string_view by) {
  if (!record.metrics || !record.metrics->is_object()) return {};
  const Json* folds = record.metrics->find_key("folds");
  if (!folds || !folds->is_object()) return {};
  const Json* rows = folds->find_key(by);
  if (!rows || !rows->is_array()) return {};
  std::vector<FoldRow> result;
  for (const Json& row : *rows)
    if (row.is_object() && result.size() < kMostFolds) result.push_back(read_row(row));
  return result;
}

std::vector<FoldRow> fold_rows(const Record& record, std::string_view by, std::string_view phase) {
  std::vector<FoldRow> rows = fold_rows(record, by);
  std::erase_if(rows, [&](const FoldRow& row) { return row.phase != phase; });
  return rows;
}

int category_colour(std::string_view category) {
  const auto known =
      std::ranges::find_if(kCategories, [&](Category each) { return name(each) == category; });
  return static_cast<int>((known == kCategories.end() ? kCategories.end() - 1 : known) -
                          kCategories.begin());
}

std::string profile_workload_name(const Record& record) {
  const auto text = [&](const char* key) { return text_of(record.workload, key); };
  if (text("of") == "attention")
    return fmt::format("attention S {} d {} batch {} heads {} {}{} {}", text("seq_len"),
                       text("d_model"), text("batch_size"), text("heads"), text("dtype"),
                       text("causal") == "True" ? " causal" : "", text("scenario"));
  return fmt::format("{} context {} batch {} {} {}", text("model_size"), text("context_length"),
                     text("batch_size"), text("precision"), text("scenario"));
}

}  // namespace ridgeline
