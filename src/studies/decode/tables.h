// The layer study as people read it: CSV, a terminal table, and sentences.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/record.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

// One row per record: part, phase, cache, prompt_length, batch_size, macs, flops, bytes, intensity,
// bound, predicted_ms, median_ms, tokens_per_s, roof_pct, and what tells it from others. Rows that
// are not "success" have no times.
Table layer_csv(std::span<const Record> records);
Table layer_summary(std::span<const Record> records);

// What bounds prefill and decode and why, the batch at which decode's MLP crosses the ridge, what a
// cache saves, and the shares of attention and MLP.
std::vector<std::string> layer_notes(std::span<const Record> records);
// Of these the sentence about what bounds prefill and decode; empty: no rows say it.
std::string layer_bounds(std::span<const Record> records);
ReportSection layer_section(const ReportContext& context);

}  // namespace ridgeline
