// Results files: every line, and every view of what could be read.
#include <sstream>

#include "fuzz/fuzz.h"
#include "fuzz/seed_records.h"
#include "measure/read_results.h"
#include "measure/record_json.h"
#include "measure/roofline_model.h"
#include "report/page/document.h"
#include "report/page/html_page.h"
#include "report/page/markdown.h"
#include "report/page/svg_chart.h"
#include "report/terminal/ladder.h"
#include "report/terminal/table.h"
#include "studies/attention/tables.h"
#include "studies/frontier/tables.h"
#include "studies/gemm/tables.h"
#include "studies/kernel/tables.h"
#include "studies/model/tables.h"
#include "studies/profile/tables.h"
#include "studies/roofline/tables.h"
#include "studies/studies.h"

namespace ridgeline {
namespace {

constexpr Table (*kTables[])(const RecordRefs&) = {
    attention_csv,     attention_summary, frontier_csv,   frontier_summary, gemm_csv,
    gemm_summary,      kernel_csv,        kernel_summary, model_csv,        model_summary,
    model_first_steps, roofline_csv,      profile_csv,    profile_modes};
constexpr std::vector<std::string> (*kNotes[])(const RecordRefs&) = {frontier_notes, kernel_notes,
                                                                     model_notes, profile_notes};

void view(const std::vector<Record>& records) {
  for (const auto table : kTables) {
    const Table made = table(records);
    to_text(made);
    to_csv(made);
    to_markdown(made);
  }
  for (const auto notes : kNotes) notes(records);
  with_verdicts<explain_attention>(records);
  with_verdicts<gemm_notes>(records);
  attention_side_by_side(records);
  for (const Record& record : records) {
    profile_answers(record);
    for (const char* by : {"phase", "scope", "kernel"}) to_text(profile_folds(record, by, 10));
  }
  to_array(records);
  for (const char* study : {"attention", "model"}) to_text(ladder_table(records, study));
  const std::vector<Roofline> all = rooflines(records);
  for (const Roofline& roofline : all) {
    const std::vector<RooflinePoint> points = place(records, roofline);
    compute_ceilings(roofline);
    memory_ceilings(roofline);
    roofline_points(points);
    for (const RooflinePoint& point : points) sentence(point);
    for (const ComputeCeiling& ceiling : roofline.compute)
      roofline_plot(roofline, ceiling.dtype, points);
  }
  const ReportDocument document = make_report({.records = records, .sections = report_sections()});
  to_html(document);
  to_markdown(document);
  for (const ReportSection& section : document.sections)
    for (const ReportView& shown : section.views)
      for (const Chart& chart : shown.charts) to_svg(chart, shown.name);
}

void read_and_view(const std::string& input) {
  std::vector<Record> records;
  std::istringstream lines(input);
  for (std::string line; std::getline(lines, line);)
    if (ParsedLine parsed = parse_line(line); parsed.record) {
      // What was read can be written, and is read again.
      const std::string written = to_line(*parsed.record);
      if (!parse_line(written.substr(0, written.size() - 1)).record)
        throw Error(ErrorKind::internal, "a record that was read cannot be written: " + line);
      records.push_back(std::move(*parsed.record));
    }
  if (!records.empty()) view(records);
}

std::vector<std::string> seeds() {
  const std::vector<Record> all = seed_records();
  std::vector<std::string> lines;
  for (const Record& record : all) lines.push_back(to_line(record));
  std::string attention, products;
  for (const Record& record : all) {
    if (record.study == "attention") attention += to_line(record);
    if (record.study == "roofline" || record.study == "gemm") products += to_line(record);
  }
  lines.insert(lines.end(), {attention, products});
  return lines;
}

TEST(SlowFuzz, Records) {
  fuzz({.name = "Records",
        .seeds = seeds(),
        .words = record_words(),
        .run = read_and_view,
        .inputs = 1500});
}

// The reader of files has its own limits on lines, and meets no newline at the end.
TEST(SlowFuzz, ResultsFile) {
  const TempDir folder;
  fuzz({.name = "ResultsFile",
        .seeds = seeds(),
        .words = record_words(),
        .run = [&](const std::string& input) {
          write_text(folder / "results.jsonl", input);
          read_results(folder / "results.jsonl");
        }});
}

}  // namespace
}  // namespace ridgeline
