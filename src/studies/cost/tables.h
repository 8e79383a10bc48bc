// What the cost study shows: counts, least times, sentences and a report section.
#pragma once

#include <map>
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

// Names of the works and ceilings of some rows. Where several have the same name, such as models
// with sizes of their own, what sets them apart follows it.
class CostNames {
 public:
  explicit CostNames(const RecordRefs& records);

  // What was counted, without its dtype: "layer decode, small, context 1024, batch 4, naive".
  std::string work(const Record& record) const;
  // The same of the model alone: "custom-small, layers 2".
  std::string model(const Record& record) const;
  // Whose ceilings: "A100 SXM 80 GB", "AMD EPYC 9B14, measured".
  std::string ceilings(const Record& record) const;

 private:
  std::map<std::string, std::vector<Json>> works_, ceilings_;  // facts by name
};

}  // namespace ridgeline
