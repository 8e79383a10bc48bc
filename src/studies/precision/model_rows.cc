#include "studies/precision/model_rows.h"

#include <fmt/format.h>

#include <cmath>
#include <map>

#include "report/record_cells.h"
#include "report/verdicts.h"

namespace ridgeline {
namespace {

using Number = std::optional<double>;

// The first loss, from equal parameters and tokens, of the first scenario that has one.
Number first_loss(const Record& record) {
  for (const char* series : {"fwd_bwd", "full_step"})
    if (const Number loss = metric_of(record, series, "loss")) return loss;
  return std::nullopt;
}

// Identifies a model across its precisions.
std::string model_key(const Record& record) {
  std::string key = record.implementation + '\n' + record.device + '\n';
  for (const char* name : {"model_size", "context_length", "batch_size", "num_params", "layers"})
    key += text_of(record.workload, name) + '\n';
  return key + text_of(record.settings, "seed") + '\n' + record.machine.fingerprint;
}

bool is_full(const Record& record) {
  return text_of(record.workload, "precision") == "fp32";
}

}  // namespace

std::vector<PrecisionModelRow> precision_model_rows(const RecordRefs& records) {
  std::vector<PrecisionModelRow> rows;
  std::map<std::string, const Record*> full;
  for (const Record* record : rows_of_study(records, "precision")) {
    if (text_of(record->workload, "part") != "compare") continue;
    PrecisionModelRow& row = rows.emplace_back();
    row.record = record;
    row.forward_ms = median_ms(*record, "forward");
    row.backward_ms = median_ms(*record, "backward");
    const Number both = median_ms(*record, "fwd_bwd"), step = median_ms(*record, "full_step");
    if (both && step) row.optimizer_ms = *step - *both;
    if (record->status == Status::ok) row.peak_mib = mebibytes(record->memory.peak);
    row.loss = first_loss(*record);
    if (is_full(*record)) full[model_key(*record)] = record;
  }
  for (PrecisionModelRow& row : rows) {
    const auto found = full.find(model_key(*row.record));
    if (found == full.end() || is_full(*row.record)) continue;
    row.full = found->second;
    const Number exact = first_loss(*row.full);
    if (row.loss && exact && *exact != 0)
      row.loss_error = std::abs(*row.loss - *exact) / std::abs(*exact);
  }
  return rows;
}

std::vector<std::string> precision_model_notes(const RecordRefs& records) {
  std::vector<std::string> notes;
  for (const PrecisionModelRow& row : precision_model_rows(records)) {
    if (row.full == nullptr) continue;
    std::string text;
    const auto add = [&](const std::string& part) { text += (text.empty() ? "" : ", ") + part; };
    for (const char* series : {"forward", "backward", "full_step"}) {
      const Number before = median_ms(*row.full, series), after = median_ms(*row.record, series);
      if (before && after && *before > 0 && *after > 0)
        add(fmt::format("{} {}", series, times_as_fast(*before / *after)));
    }
    const Number before = mebibytes(row.full->memory.peak);
    if (before && row.peak_mib && *before > 0)
      add(fmt::format("peak memory {:.0f} %", 100 * *row.peak_mib / *before));
    if (row.loss_error) add(fmt::format("the first loss off by {:.2g}", *row.loss_error));
    if (text.empty()) continue;
    const Json& workload = row.record->workload;
    notes.push_back(fmt::format("{}, context {}, {}: {} against fp32, by the medians: {}",
                                text_of(workload, "model_size"),
                                text_of(workload, "context_length"), row.record->implementation,
                                text_of(workload, "precision"), text));
  }
  return notes;
}

}  // namespace ridgeline
