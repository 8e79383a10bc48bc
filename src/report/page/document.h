// A report before it has a shape: sections of sentences, charts and tables, made from records.
// HTML, Markdown and SVG are written from it, so that all of them say the same.
//
//   const ReportDocument document = make_report({.records = read.records});
//   write_file_atomically("report.html", to_html(document));
#pragma once

#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "measure/compare.h"
#include "measure/read_results.h"
#include "measure/record.h"
#include "report/terminal/table.h"

namespace ridgeline {

struct Tick {
  double value = 0;
  std::string text = {};
};

struct Axis {
  std::string label = {};
  bool log = false;
  double min = 0;
  double max = 1;
  std::vector<Tick> ticks = {};
};

struct ChartPoint {
  double x = 0;  // of bars: the index of the category
  double y = 0;
  std::string text = {};  // what a reader sees who points at it
};

struct ChartSeries {
  // Steps hold a level until the next point; an area is filled below them.
  enum class Mark { line_and_points, line, points, rings, crosses, steps, area };

  std::string name = {};
  Mark mark = Mark::line_and_points;
  // Into the palette: an implementation keeps its own in all charts. -1: grey; -2, ...: paler.
  int colour = 0;
  std::vector<ChartPoint> points = {};
};

struct Chart {
  enum class Kind { xy, bars, stacked_bars };

  Kind kind = Kind::xy;
  std::string id = {};           // "latency-forward", also the name of its file
  std::string title = {};        // "Forward time"
  std::string description = {};  // one sentence for those who cannot see it
  Axis x = {};                   // of bars: unused
  Axis y = {};                   // of bars: along the bars
  std::vector<std::string> categories = {};
  std::optional<double> reference = {};  // a thin line across the bars
  std::vector<ChartSeries> series = {};
  std::optional<Table> numbers = {};  // where a table of all points would not be read
};

// The numbers of a chart as a table: its own, or a row per x or category and a column per series;
// charts whose points share no x have a row per point.
Table chart_table(const Chart& chart);

// One selection of the data, such as "fp32, d 64"; all charts of a view belong together.
struct ReportView {
  std::string name = {};
  std::vector<Chart> charts = {};
};

struct ReportCell {
  std::string text = {};
  std::optional<double> number = {};  // to sort by; empty: by the text
};

// What stands behind a row: "command", "error", "measured at"; in the order to be shown.
using RowDetails = std::vector<std::pair<std::string, std::string>>;

struct ReportTable {
  std::string title = {};
  std::vector<std::string> columns = {};
  std::vector<std::vector<ReportCell>> rows = {};
  std::vector<RowDetails> details = {};  // one per row, or none at all
};

struct ReportSection {
  std::string id = {};
  std::string title = {};
  std::vector<std::string> sentences = {};
  std::vector<ReportView> views = {};  // the first is shown at first, in print and in figures
  std::vector<ReportTable> tables = {};
  std::vector<std::string> lead = {};  // above the pictures: a question, and what the rows answer
  bool folds_tables = false;           // they open by a click

  bool empty() const {
    return sentences.empty() && views.empty() && tables.empty() && lead.empty();
  }
};

// A figure that the eye should meet first.
struct KeyFigure {
  std::string value = {};  // "2.31x"
  std::string what = {};   // "flash over naive, forward"
};

struct ReportDocument {
  std::string title = {};
  std::string subtitle = {};
  std::vector<KeyFigure> figures = {};
  std::vector<std::string> summary = {};
  std::vector<ReportSection> sections = {};
  std::string footer = {};
};

struct ReportProblem {
  std::string file = {};
  LineProblem problem = {};
};

struct ReportContext;
using MakeSection = ReportSection (*)(const ReportContext&);

struct ReportInput {
  std::vector<Record> records = {};
  std::vector<ReportProblem> problems = {};
  std::vector<std::string> sources = {};      // the files that were read
  std::optional<Comparison> comparison = {};  // of the records with a base
  NoiseLookup noise = {};                     // of this machine; empty: assumed
  std::string made_by = {};                   // "ridgeline 0.1.0"
  std::string made_at = {};
  std::vector<MakeSection> sections = {};        // of studies, in reading order
  std::vector<std::string_view> unchecked = {};  // studies whose rows compute nothing to check
};

// Of rows measured twice, the later one counts. Whatever the records hold, this does not throw.
ReportDocument make_report(const ReportInput& input);

}  // namespace ridgeline
