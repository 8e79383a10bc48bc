// Selects and sorts the attention rows among records, for tables and sentences.
#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "report/record_columns.h"

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

// The size of an attention record; empty for records of other studies and those without batch_size,
// seq_len and d_model as positive whole numbers.
std::optional<AttentionSize> attention_size(const Record& record);

// Points into the records it was made from.
struct AttentionRow : RecordRow {
  AttentionSize size;
  std::string implementation = {};  // with its variant if it has several: "flash (two-pass)"
};

struct AttentionRows {
  std::vector<AttentionRow> rows;            // by size, then implementation
  std::vector<std::string> implementations;  // in order of first appearance
};

// The rows that have a size. If one was measured twice, the later record counts.
AttentionRows attention_rows(const RecordRefs& records);

// The out-of-memory row with the smallest predicted peak, then length, width and batch size; null
// if there is none.
const AttentionRow* smallest_oom_row(const std::vector<AttentionRow>& rows);

}  // namespace ridgeline
