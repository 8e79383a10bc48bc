// A report before it is rendered: sections of sentences, charts and tables, made from records.
// HTML, Markdown and SVG are rendered from it, so that they agree.
//
//   const ReportDocument document = make_report({.records = read.records});
//   write_file_atomically("report.html", to_html(document));
#pragma once

#include <limits>
#include <map>
#include <optional>
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

enum class Better { neither, lower, higher };

struct Axis {
  std::string label = {};  // in words; the ticks carry the unit
  bool log = false;
  double min = 0;
  double max = 1;
  std::vector<Tick> ticks = {};
  Better better = Better::neither;
};

struct ChartPoint {
  static constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

  double x = 0;  // of bars, dots and tracks: the index of the category
  double y = 0;
  std::string text = {};             // tooltip
  double low = kNone, high = kNone;  // interval of y; kNone: counted, or too few samples
  double from = 0;                   // start of floating bars and tracks
  std::string value = {};            // written at the end of a bar; empty: `text`
  std::string label = {};            // written beside the point; empty: nothing

  bool has_interval() const { return low <= high; }
};

struct ChartSeries {
  // Steps hold a level until the next point; an area is filled below them.
  enum class Mark { line_and_points, line, points, rings, crosses, steps, area };
  // An implementation has the same colour in all charts; tensors and kinds of work have others.
  enum class Palette { implementations, tensors };

  std::string name = {};  // series of one name are shown and hidden together
  Mark mark = Mark::line_and_points;
  // Index into the palette. -1: grey; -2, ...: paler.
  int colour = 0;
  std::vector<ChartPoint> points = {};
  Palette palette = Palette::implementations;
  std::string implementation = {};  // that the points belong to; empty: none
  std::string group = {};           // series of one arithmetic are toggled together: "bf16"
  std::string work = {};            // and those of one kind of work: "attention"
  bool hidden = false;              // until the reader turns it on
  bool dashed = false;              // coincides with another line, which shows through the gaps
};

// A labelled range of the x axis: "memory bounds".
struct ChartRegion {
  double from = 0, to = 0;
  std::string text = {};
};

struct Chart {
  // Bars begin at zero of a linear axis; dots may have a logarithmic one. A waterfall has one
  // floating bar per category, tracks have any number.
  enum class Kind { xy, bars, stacked_bars, dots, waterfall, tracks };

  Kind kind = Kind::xy;
  std::string id = {};           // "latency-forward", also the name of its file
  std::string title = {};        // "Forward time"
  std::string description = {};  // one sentence, for screen readers
  Axis x = {};                   // of bars: unused
  Axis y = {};                   // of bars: along the bars
  std::vector<std::string> categories = {};
  std::optional<double> reference = {};  // a thin line across the bars
  std::vector<ChartSeries> series = {};
  std::string key = {};                   // what marks mean: "filled: forward; hollow: others"
  std::optional<Table> numbers = {};      // shown in place of a table of all points
  std::vector<ChartRegion> regions = {};  // painted first
  bool zooms = false;                     // a timeline that the reader can zoom
  bool is_tall = false;                   // many points lie above each other

  bool has_categories() const { return kind != Kind::xy; }
};

// Returns the numbers of a chart: its own table, or one with a row per x or category and a column
// per series. A chart without lines has a row per point.
Table chart_table(const Chart& chart);

// The charts of one selection of the data, such as "fp32, d 64".
struct ReportView {
  std::string name = {};
  std::vector<Chart> charts = {};
  size_t pictures = 1;  // how many are shown, side by side; the others are folded
};

struct ReportCell {
  std::string text = {};
  std::optional<double> number = {};  // to sort by; empty: by the text
};

// Labels and texts of a row's details in display order: "command", "why", "measured".
using RowDetails = std::vector<std::pair<std::string, std::string>>;

struct ReportTable {
  std::string title = {};
  std::vector<std::string> columns = {};
  std::vector<std::vector<ReportCell>> rows = {};
  std::vector<RowDetails> details = {};  // one per row, or none at all
};

// How certain an answer is.
struct Certainty {
  // decided, partly, undecided: the share of comparisons that the verdict engine decided.
  // disturbed: large differences, or times without a comparison, from a disturbed machine.
  // measured: figures of this machine without a comparison.
  // counted: from graphs and data sheets, without a run.
  enum class Level { decided, partly, undecided, disturbed, measured, counted };
  Level level = Level::measured;
  std::string why = {};  // "All 12 comparisons are decided by the verdict engine."
};
std::string_view level_name(Certainty::Level level);  // "decided", ...

struct Term {
  std::string word = {}, meaning = {};
};

// A question, its answer and certainty, and one picture; everything else is folded.
struct ReportSection {
  std::string id = {};
  std::string title = {};  // short, for the navigation
  std::string question = {};
  std::string answer = {};  // empty: the rows do not answer it
  Certainty certainty = {};
  std::vector<ReportView> views = {};  // the first is the default, also in print and figures
  std::vector<std::string> sentences = {};
  std::vector<ReportTable> tables = {};
  std::vector<Term> terms = {};  // that appear here for the first time

  bool empty() const {
    return answer.empty() && sentences.empty() && views.empty() && tables.empty();
  }
};

// A headline figure.
struct KeyFigure {
  std::string value = {};  // "2.31x"
  std::string what = {};   // "flash over naive, forward"
};

struct ReportDocument {
  std::string title = {};
  std::string subtitle = {};
  std::vector<KeyFigure> figures = {};
  std::vector<std::string> summary = {};  // the findings of all studies, one sentence each
  std::vector<ReportSection> sections = {};
  std::string footer = {};
};

struct ReportProblem {
  std::string file = {};
  LineProblem problem = {};
};

struct ReportContext;
using MakeSection = ReportSection (*)(const ReportContext&);

// A comparison of two sides, and their records, because a Comparison has no samples.
struct ComparedSide {
  std::string name = {};  // "new.jsonl against base.jsonl"
  Comparison comparison = {};
  std::vector<Record> base = {}, next = {};  // empty `next`: the records of the report
};

struct ReportInput {
  std::vector<Record> records = {};
  std::vector<ReportProblem> problems = {};
  std::vector<std::string> sources = {};  // the files that were read
  std::vector<ComparedSide> sides = {};   // comparisons of the records with a base
  NoiseLookup noise = {};                 // of this machine; empty: assumed
  std::string made_by = {};               // "ridgeline 0.1.0"
  std::string made_at = {};
  std::vector<MakeSection> sections = {};        // of studies, in reading order
  std::vector<std::string_view> unchecked = {};  // studies whose rows compute nothing to check
  std::map<std::string_view, std::string_view> titles = {};  // of studies: "Matrix products"
};

// If a row was measured twice, the later record counts. Does not throw, whatever records hold.
ReportDocument make_report(const ReportInput& input);

}  // namespace ridgeline
