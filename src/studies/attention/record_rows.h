// The attention rows among records, in reading order: what the attention tables and texts start
// from.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"

namespace ridgeline {

struct AttentionSize {
  std::string device;
  std::string dtype;
  bool causal = false;
  int64_t heads = 1;
  int64_t batch_size = 0;
  int64_t d_model = 0;
  int64_t seq_len = 0;

  auto operator<=>(const AttentionSize&) const = default;
};

// Points into the records it was made from.
struct AttentionRow {
  const Record* record = nullptr;
  AttentionSize size;
  std::string implementation = {};  // with its variant, where it has several: "flash (two-pass)"
};

struct AttentionRows {
  std::vector<AttentionRow> rows;            // by size, then implementation
  std::vector<std::string> implementations;  // in order of first appearance
};

// Of rows measured twice the later one counts. Records of other studies, or without batch_size,
// seq_len and d_model as positive whole numbers, are passed over.
AttentionRows attention_rows(std::span<const Record> records);

// The out-of-memory row with the least predicted peak, then sequence, width and batch; null: there
// is none.
const AttentionRow* smallest_oom_row(const std::vector<AttentionRow>& rows);

// Empty unless the row is ok and the series was measured.
std::optional<Statistics> phase_statistics(const Record& record, std::string_view phase);
std::optional<double> phase_median_ms(const Record& record, std::string_view phase);

}  // namespace ridgeline
