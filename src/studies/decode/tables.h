// What the decode study shows: CSV, a terminal table, sentences and a report section.
#pragma once

#include <string>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

// One row per record. Rows that are not "success" have no times.
Table layer_csv(const RecordRefs& records);
Table layer_summary(const RecordRefs& records);

// Notes on what bounds prefill and decode, the batch at which decode's MLP crosses the ridge, what
// a cache saves, and the shares of attention and MLP.
std::vector<std::string> layer_notes(const RecordRefs& records);
// One sentence on what bounds prefill and decode; empty without rows of both.
std::string layer_bounds(const RecordRefs& records);
ReportSection layer_section(const ReportContext& context);

}  // namespace ridgeline
