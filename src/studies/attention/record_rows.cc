#include "studies/attention/record_rows.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <unordered_map>

#include "base/sort_by.h"

namespace ridgeline {

std::optional<AttentionSize> attention_size(const Record& record) {
  const Json& workload = record.workload;
  const auto batch_size = positive_at(workload, "batch_size");
  const auto seq_len = positive_at(workload, "seq_len");
  const auto d_model = positive_at(workload, "d_model");
  if (record.study != "attention" || !batch_size || !seq_len || !d_model) return std::nullopt;
  const Json *causal = workload.find_key("causal"), *dtype = workload.find_key("dtype");
  return AttentionSize{.device = record.device,
                       .dtype = dtype && dtype->is_string() ? dtype->text() : "fp32",
                       .causal = causal && causal->is_boolean() && causal->get<bool>(),
                       .heads = positive_at(workload, "heads").value_or(1),
                       .batch_size = *batch_size,
                       .d_model = *d_model,
                       .seq_len = *seq_len};
}

AttentionRows attention_rows(const RecordRefs& records) {
  AttentionRows out;
  const VariantNames variants(records, "attention");
  std::unordered_map<std::string, size_t> row_of_key;
  for (const Record* record : records) {
    const auto size = attention_size(*record);
    if (!size) continue;
    const std::string name = variants.of(*record);
    auto& names = out.implementations;
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    const auto [entry, is_new] = row_of_key.try_emplace(
        workload_key(*record) + record->machine.fingerprint, out.rows.size());
    if (is_new)
      out.rows.push_back({{record}, *size, name});
    else
      out.rows[entry->second].record = record;
  }
  const auto rank = [&](const AttentionRow& row) {
    return std::find(out.implementations.begin(), out.implementations.end(), row.implementation);
  };
  sort_by(out.rows, [&](const AttentionRow& row) { return std::pair(row.size, rank(row)); });
  return out;
}

const AttentionRow* smallest_oom_row(const std::vector<AttentionRow>& rows) {
  const auto order = [](const AttentionRow& row) {
    constexpr Bytes kUnknown{std::numeric_limits<int64_t>::max()};
    return std::tuple(row.record->memory.predicted_peak.value_or(kUnknown), row.size.seq_len,
                      row.size.d_model, row.size.batch_size);
  };
  const AttentionRow* smallest = nullptr;
  for (const AttentionRow& row : rows)
    if (row.record->status == Status::oom && (!smallest || order(row) < order(*smallest)))
      smallest = &row;
  return smallest;
}

}  // namespace ridgeline
