// The input of the sections of a report: the rows that count, and groups of rows that differ only
// in implementation and sequence length.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"
#include "measure/record_values.h"
#include "measure/roofline_model.h"
#include "report/page/document.h"
#include "report/record_cells.h"
#include "report/verdicts.h"

namespace ridgeline {

// One dot of a roofline: a phase of a row.
struct RooflineDot {
  const Record* record = nullptr;
  std::string series;
  std::string path;            // of its products: "fp32 by 3 fp16 products"
  bool path_is_known = true;   // false: assumed from the dtype
  bool several_paths = false;  // its products use more than one path
  double intensity = 0;        // FLOPs per byte
  double flops_per_s = 0;
  std::optional<double> roof = {};  // FLOP/s that the ceilings allow at this intensity
  std::optional<Bound> bound = {};  // empty if there is no roof
  std::string slope = {};           // bandwidth that the roof uses: "memory", "L3", "loads"
  bool slope_is_known = true;       // false: no bandwidth is, and the roof is that of arithmetic

  double share() const { return roof ? flops_per_s / *roof : 0; }  // of the roof
};

// One row of a study whose workload has a sequence length.
struct LengthRow {
  const Record* record = nullptr;
  std::string implementation;  // with its variant, where it has several: "flash (two-pass)"
  int64_t seq_len = 0;
};

// Rows that differ in nothing but implementation and sequence length.
struct LengthGroup {
  std::vector<std::string> parts;  // "CPU", "fp32", "not causal", "batch 8", ...
  std::string name;             // the parts in which the groups of the study differ; may be empty
  std::vector<LengthRow> rows;  // by length, then by implementation in order of appearance
  std::vector<std::string> implementations;  // at most kMostImplementations
  std::map<std::pair<int64_t, std::string>, const Record*> by_size;

  const Record* find(const std::string& implementation, int64_t seq_len) const;
  std::vector<int64_t> lengths() const;
};

// Limit on the lines of a chart and the names in a sentence.
inline constexpr size_t kMostImplementations = 16;

struct LengthStudy {
  std::string shared;               // the parts that all groups share: "CPU, fp32, batch 8"
  std::vector<LengthGroup> groups;  // those with the most implementations, then lengths, first
  std::vector<std::string> implementations;
  bool all_shown = true;  // false: groups leave implementations out
};

using LengthStudies = std::map<std::string, LengthStudy, std::less<>>;  // by name, made on demand

struct ReportContext {
  const ReportInput& input;
  std::vector<const Record*> rows;          // without those that a later one replaced
  std::map<std::string, int> colours;       // of implementations
  std::vector<Roofline> rooflines;          // measured ceilings, by machine and device
  int superseded = 0;                       // number of rows that a later one replaced
  std::shared_ptr<Verdicts> verdicts = {};  // of pairs of these rows
  std::vector<RooflineDot> dots = {};       // of these rows, in their order
  std::map<const Record*, size_t> first_dot = {};
  std::shared_ptr<LengthStudies> length_studies = std::make_shared<LengthStudies>();

  int colour(const std::string& implementation) const;
  // Returns null if the row has no cost or no time.
  const RooflineDot* dot(const Record& record, std::string_view series) const;
};

ReportContext report_context(const ReportInput& input);

// Makes text from a record safe to show: printable ASCII on one line, truncated.
std::string shown(std::string_view text, size_t max_length = 80);

// Returns a cell that sorts as a number if the text is one.
ReportCell text_cell(const std::string& text);
// Removes columns in which all rows have the same text, if `is_spare` accepts that text.
void drop_columns(ReportTable& table, const std::function<bool(const std::string&)>& is_spare);
// Converts a table of a terminal, safe to show. Columns in which all rows agree move to the title
// if the table is wide.
ReportTable as_report_table(const Table& table);

// Returns a value of the workload or the settings, safe to show, or an empty string.
std::string text_at(const Json& object, const char* key);
// Replaces "custom" by the model's sizes: "4 layers, d 256, context 128 ...".
std::string named_model(const std::string& text, const Json& workload);
// The name of a study in the navigation: "Matrix products".
std::string study_title(const ReportContext& context, std::string_view study);
// "batch size" of the key "batch_size".
std::string key_words(std::string_view key);
// The words for a phase: "forward and backward" for the series "fwd_bwd".
std::string phase_words(std::string_view series);
// From 1 on at least three significant figures, else two: "4030", "85.3", "0.25".
std::string figures_text(double value);
// "a, b and c".
std::string listed(const std::vector<std::string>& words);

// Returns the groups of a study; it has none if its workloads have no sequence length.
const LengthStudy& length_study(const ReportContext& context, std::string_view study);

// Returns the implementation that speedups refer to: naive or vanilla if present, else the first.
std::string baseline_of(const std::vector<std::string>& implementations);

// The name of a size: "S 4096" or "S 4096, d 64".
std::string place_of(const LengthGroup& group, int64_t seq_len);

}  // namespace ridgeline
