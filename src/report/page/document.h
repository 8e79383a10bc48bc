// A report before it has a shape: sections of sentences, charts and tables, made from records.
// HTML, Markdown and SVG are written from it, so that all of them say the same.
//
//   const ReportDocument document = make_report({.records = read.records});
//   write_file_atomically("report.html", to_html(document));
#pragma once

#include <functional>
#include <limits>
#include <map>
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

// Which end of an axis is the good one.
enum class Better { neither, lower, higher };

struct Axis {
  std::string label = {};  // what it is, in words; the ticks carry the unit
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
  std::string text = {};             // what a reader sees who points at it
  double low = kNone, high = kNone;  // the interval of y; none: counted, or too few samples
  double from = 0;                   // of floating bars and tracks: where they begin
  std::string value = {};            // at the end of a bar, where the text is longer than that
  std::string label = {};            // written beside it: for points that matter

  bool has_interval() const { return low <= high; }
};

struct ChartSeries {
  // Steps hold a level until the next point; an area is filled below them.
  enum class Mark { line_and_points, line, points, rings, crosses, steps, area };
  // Implementations have one colour each in all charts; tensors, and kinds of work, have others.
  enum class Palette { implementations, tensors };

  std::string name = {};  // series of one name are shown and hidden together
  Mark mark = Mark::line_and_points;
  // Into the palette. -1: grey; -2, ...: paler.
  int colour = 0;
  std::vector<ChartPoint> points = {};
  Palette palette = Palette::implementations;
  std::string implementation = {};  // whose points they are; empty: nobody's
  std::string group = {};           // shown and hidden together, too: "bf16"
  std::string work = {};            // and so are those of one kind of work: "attention"
  bool hidden = false;              // until it is asked for
  bool dashed = false;              // lies on another one, which shows through the gaps
};

// A part of the x axis with a meaning of its own: "memory bounds".
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
  std::string description = {};  // one sentence for those who cannot see it
  Axis x = {};                   // of bars: unused
  Axis y = {};                   // of bars: along the bars
  std::vector<std::string> categories = {};
  std::optional<double> reference = {};  // a thin line across the bars
  std::vector<ChartSeries> series = {};
  std::string key = {};                   // what marks mean: "filled: forward; hollow: others"
  std::optional<Table> numbers = {};      // where a table of all points would not be read
  std::vector<ChartRegion> regions = {};  // behind everything
  bool zooms = false;                     // a timeline: more than one look takes in
  bool is_tall = false;                   // many points, one above the other

  bool has_categories() const { return kind != Kind::xy; }
};

// The numbers of a chart as a table: its own, or a row per x or category and a column per series;
// charts whose points share no x have a row per point.
Table chart_table(const Chart& chart);

// One selection of the data, such as "fp32, d 64"; all charts of a view belong together.
struct ReportView {
  std::string name = {};
  std::vector<Chart> charts = {};
  size_t pictures = 1;  // so many of them are the picture, side by side; the others are folded
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

// How far an answer holds.
struct Certainty {
  // decided, partly, undecided: what the verdict engine says of the comparisons behind the answer.
  // disturbed: differences that are large enough, or times that nothing is compared with, of a
  // machine that other work disturbed. measured: figures of this machine that nothing is compared
  // with. counted: from graphs and data sheets, without a run.
  enum class Level { decided, partly, undecided, disturbed, measured, counted };
  Level level = Level::measured;
  std::string why = {};  // "12 of 12 comparisons"
};
std::string_view level_name(Certainty::Level level);  // "decided", ...

struct Term {
  std::string word = {}, meaning = {};
};

// What every section is: a question, one sentence of answer with its certainty, and one picture;
// everything else is folded.
struct ReportSection {
  std::string id = {};
  std::string title = {};  // short, for the navigation
  std::string question = {};
  std::string answer = {};  // empty: the rows do not answer it
  Certainty certainty = {};
  std::vector<ReportView> views = {};  // the first is shown at first, in print and in figures
  std::vector<std::string> sentences = {};
  std::vector<ReportTable> tables = {};
  std::vector<Term> terms = {};  // that appear here for the first time

  bool empty() const {
    return answer.empty() && sentences.empty() && views.empty() && tables.empty();
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

// Two sides that were compared, with the samples that a comparison leaves out.
struct ComparedSide {
  std::string name = {};  // "new.jsonl against base.jsonl"
  Comparison comparison = {};
  std::vector<Record> base = {}, next = {};  // no `next`: the records of the report
};

struct ReportInput {
  std::vector<Record> records = {};
  std::vector<ReportProblem> problems = {};
  std::vector<std::string> sources = {};  // the files that were read
  std::vector<ComparedSide> sides = {};   // of the records with a base
  NoiseLookup noise = {};                 // of this machine; empty: assumed
  std::string made_by = {};               // "ridgeline 0.1.0"
  std::string made_at = {};
  std::vector<MakeSection> sections = {};        // of studies, in reading order
  std::vector<std::string_view> unchecked = {};  // studies whose rows compute nothing to check
  std::map<std::string_view, std::string_view> titles = {};  // of studies: "Matrix products"
};

// Of rows measured twice, the later one counts. Whatever the records hold, this does not throw.
ReportDocument make_report(const ReportInput& input);

}  // namespace ridgeline
