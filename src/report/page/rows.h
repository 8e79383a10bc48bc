// What the sections of a report start from: the rows that count, and those of them that sweep a
// sequence length, in groups that differ in nothing else.
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
#include "measure/roofline_model.h"
#include "report/page/document.h"
#include "report/verdicts.h"

namespace ridgeline {

// One dot of a roofline: a pass of a row.
struct RooflineDot {
  const Record* record = nullptr;
  std::string series;
  std::string path;            // of its products: "fp32 by 3 fp16 products"
  bool path_is_known = true;   // false: by its dtype, which may not be how it ran
  bool several_paths = false;  // not all of its products are made alike
  double intensity = 0;        // FLOPs per byte
  double flops_per_s = 0;
  std::optional<double> roof = {};  // FLOP/s that the ceilings allow at this intensity
  std::optional<Bound> bound = {};  // of those with a roof
  std::string slope = {};           // whose bandwidth the roof has: "memory", "L3", "loads"

  double share() const { return roof ? flops_per_s / *roof : 0; }  // of the roof
};

struct ReportContext {
  const ReportInput& input;
  std::vector<const Record*> rows;          // of rows measured twice the later one
  std::map<std::string, int> colours;       // of implementations
  std::vector<Roofline> rooflines;          // measured ceilings, by machine and device
  int superseded = 0;                       // rows that a later one replaced
  std::shared_ptr<Verdicts> verdicts = {};  // of pairs of these rows
  std::vector<RooflineDot> dots = {};       // of these rows, in their order
  std::map<const Record*, size_t> first_dot = {};

  int colour(const std::string& implementation) const;
  // Null: the row has no cost or no time.
  const RooflineDot* dot(const Record& record, std::string_view series) const;
};

ReportContext report_context(const ReportInput& input);

// Text from a record, safe to show: printable ASCII on one line, cut.
std::string shown(std::string_view text, size_t max_length = 80);

// With its number, where the text is one.
ReportCell text_cell(const std::string& text);
// Takes columns away whose rows all have one text, if `is_spare` says so of it.
void drop_columns(ReportTable& table, const std::function<bool(const std::string&)>& is_spare);
// A table of a terminal, safe to show. What all rows share stands in the title of a wide one.
ReportTable as_report_table(const Table& table);

// A value of the workload or the settings as text, safe to show; empty: there is none.
std::string text_at(const Json& object, const char* key);
std::optional<int64_t> positive_at(const Json& object, const char* key);
// "custom context 128 ..." with what the model is: "4 layers, d 256, context 128 ...".
std::string named_model(const std::string& text, const Json& workload);
// As the navigation names what a study measures: "Matrix products".
std::string study_title(const ReportContext& context, std::string_view study);
// "batch size" of the key "batch_size".
std::string key_words(std::string_view key);
// A pass as people say it: "forward and backward" of the series "fwd_bwd".
std::string pass_words(std::string_view series);
// Three figures, never in powers of ten: "4030", "85.3", "0.50".
std::string figures_text(double value);
// "1 row", "12 rows".
std::string counted(size_t count, const char* thing);

// "a, b and c".
std::string listed(const std::vector<std::string>& words);

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

// More lines than that in a chart, or names in a sentence, would not be read.
inline constexpr size_t kMostImplementations = 16;

struct LengthStudy {
  std::string shared;               // the parts that all groups share: "CPU, fp32, batch 8"
  std::vector<LengthGroup> groups;  // those with the most rows first
  std::vector<std::string> implementations;
  bool all_shown = true;  // false: groups leave implementations out
};

LengthStudy length_study(const ReportContext& context, std::string_view study);

// What speedups are told against: naive or vanilla where it is there, else the first.
std::string baseline_of(const std::vector<std::string>& implementations);

// "S 4096" or "S 4096, d 64": a size of a group.
std::string place_of(const LengthGroup& group, int64_t seq_len);

}  // namespace ridgeline
