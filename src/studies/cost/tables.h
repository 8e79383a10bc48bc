// What the cost study shows: counts, least times, sentences and a report section.
#pragma once

#include <string>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

// A row per workload and device.
Table cost_csv(const RecordRefs& records);
// A row per workload: MACs, FLOPs, bytes, FLOPs per byte.
Table cost_counts(const RecordRefs& records);
// A row per workload, a column per device: the least time and what bounds it.
Table cost_times(const RecordRefs& records);
std::vector<std::string> cost_notes(const RecordRefs& records);

// The roofs of all devices, with every workload on each.
ReportSection cost_section(const ReportContext& context);

// What was counted, without its dtype: "layer decode, small, context 1024, batch 4, naive".
std::string work_name(const Record& record);
// Whose ceilings: "A100 SXM 80 GB", "AMD EPYC 9B14, measured".
std::string ceilings_name(const Record& record);

}  // namespace ridgeline
