// The section of verdicts: changes against a base, the samples of both sides, and what changed in
// machine and build.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "base/sort_by.h"
#include "report/page/axis.h"
#include "report/page/density.h"
#include "report/page/sections.h"
#include "report/page/winners.h"
#include "report/terminal/compare.h"

namespace ridgeline {
namespace {

// The sort key is the number that the text begins with, negated for "3.20x slower".
ReportCell cell_of(const std::string& text) {
  ReportCell cell{text, {}};
  double number = 0;
  const bool found =
      std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc{};
  if (found && std::isfinite(number))  // "nano" begins with a NaN
    cell.number = text.ends_with(" slower") ? -number : number;
  return cell;
}

// Adds the name of the column to a value that means nothing alone: "seq_len 4096", "not causal".
std::string named_value(const std::string& column, const std::string& value) {
  if (value == "True") return column;
  if (value == "False") return "not " + column;
  const bool is_number = !value.empty() && value[0] >= '0' && value[0] <= '9';
  return is_number ? fmt::format("{} {}", column, value) : value;
}

// Names the lines of a comparison: "flash, seq_len 4096, d_model 64, forward". A name consists of
// study, implementation and phase, and of the columns in which lines of the study differ.
std::vector<std::string> line_names(const Comparison& comparison) {
  constexpr size_t kLongest = 90;  // characters before the phase, which is never cut
  const Table table = comparison_table(comparison);
  const auto column_of = [&](const char* name) {
    return static_cast<size_t>(std::ranges::find(table.columns, name) - table.columns.begin());
  };
  const size_t study = column_of("study"), phase = column_of("phase");
  const auto study_of = [&](const std::vector<std::string>& cells) {
    return study < cells.size() ? cells[study] : std::string();
  };
  std::set<std::pair<std::string, size_t>> differs;
  std::map<std::pair<std::string, size_t>, std::string> seen;
  for (const std::vector<std::string>& cells : table.rows)
    for (size_t i = 0; i < cells.size(); ++i)
      if (const auto [known, is_new] = seen.try_emplace({study_of(cells), i}, cells[i]);
          !is_new && known->second != cells[i])
        differs.insert({study_of(cells), i});
  std::vector<std::string> names;
  for (const std::vector<std::string>& cells : table.rows) {
    std::string& name = names.emplace_back();
    for (size_t i = 0; i < std::min(phase + 1, cells.size()); ++i) {
      const bool is_told = i == study || i == phase || table.columns[i] == "implementation" ||
                           differs.contains({study_of(cells), i});
      if (!is_told || cells[i].empty()) continue;
      if (i == phase) name = shown(name, kLongest);
      name += (name.empty() ? "" : ", ") + named_value(table.columns[i], cells[i]);
    }
    name = shown(name, kLongest + 40);
  }
  return names;
}

struct NamedLine {
  const RowComparison* row;
  std::string name;

  const RowComparison* operator->() const { return row; }
};

// Returns the lines with a verdict: decided changes, then large differences in doubt because of the
// machine, then the rest, each from the largest on.
std::vector<NamedLine> by_change(const Comparison& comparison) {
  std::vector<NamedLine> rows;
  const std::vector<std::string> names = line_names(comparison);
  for (size_t i = 0; i < comparison.rows.size(); ++i) {
    const RowComparison& row = comparison.rows[i];
    if (row.verdict && std::isfinite(row.log_time.estimate)) rows.push_back({&row, names[i]});
  }
  sort_by_falling(rows, [](const NamedLine& row) {
    return std::tuple(row->judged() && row->verdict != Verdict::same, row->in_doubt,
                      std::abs(row->log_time.estimate));
  });
  return rows;
}

Chart changes_chart(const std::vector<NamedLine>& rows, const Comparison& comparison) {
  constexpr size_t kMostShown = 24;
  Chart chart{.kind = Chart::Kind::dots,
              .id = "changes",
              .title = rows.size() > kMostShown
                           ? fmt::format("The {} largest changes of {}", kMostShown, rows.size())
                           : "Changes",
              .description = fmt::format(
                  "New against base: how many times as fast, with an interval of {:.4g} %, on a "
                  "logarithmic axis; left of the line is slower.",
                  100 * comparison.confidence),
              .reference = 1.0};
  // Differences in doubt because of the machine are large; the other UNCLEAR ones are too close.
  struct Kind {
    Verdict verdict;
    bool in_doubt;
    const char* name;
    int colour;
    ChartSeries::Mark mark = ChartSeries::Mark::points;
  };
  constexpr Kind kKinds[] = {
      {Verdict::faster, false, "FASTER", 2},
      {Verdict::slower, false, "SLOWER", 5},
      {Verdict::same, false, "SAME", -1},
      {Verdict::unclear, true, "UNCLEAR, yet far apart: the machine is in doubt", 4},
      {Verdict::unclear, false, "UNCLEAR, too close", -1, ChartSeries::Mark::rings}};
  std::vector<double> values = {1};
  std::vector<ChartSeries> series;
  for (const Kind& kind : kKinds)
    series.push_back({.name = kind.name, .mark = kind.mark, .colour = kind.colour});
  for (size_t i = 0; i < std::min(rows.size(), kMostShown); ++i) {
    const RowComparison& row = *rows[i].row;
    chart.categories.push_back(rows[i].name);
    ChartPoint point{.x = static_cast<double>(i), .y = row.speedup()};
    if (std::isfinite(row.log_time.low) && std::isfinite(row.log_time.high)) {
      point.low = row.speedup_low();
      point.high = row.speedup_high();
      values.insert(values.end(), {point.low, point.high});
    }
    values.push_back(point.y);
    point.value = fmt::format("{:.2f}x", point.y);
    point.text = fmt::format(
        "{}: {:.3f}x{}{}", rows[i].name, point.y,
        point.has_interval() ? fmt::format(" ({:.3f} to {:.3f})", point.low, point.high) : "",
        point.has_interval()
            ? fmt::format("; a slowdown of {} would have been seen", percent_text(row.visible()))
            : "");
    for (size_t k = 0; k < std::size(kKinds); ++k)
      if (row.verdict == kKinds[k].verdict && row.in_doubt == kKinds[k].in_doubt)
        series[k].points.push_back(std::move(point));
  }
  for (ChartSeries& each : series)
    if (!each.points.empty()) chart.series.push_back(std::move(each));
  chart.y = log_axis("times as fast as the base", Quantity::ratio, values, Better::higher);
  return chart;
}

const Series* samples_of(std::span<const Record> records, const Record& row,
                         const std::string& phase) {
  const std::string key = workload_key(row);
  for (const Record& record : records)
    if (workload_key(record) == key) return record.find_series(phase);
  return nullptr;
}

ReportTable changed_facts(const Record& base, const Record& next) {
  ReportTable table{.title = "What changed in machine and build",
                    .columns = {"fact", "base", "new"}};
  const auto add = [&](const char* fact, const std::string& before, const std::string& after) {
    if (before != after)
      table.rows.push_back({{fact, {}}, {shown(before), {}}, {shown(after), {}}});
  };
  const auto gpu = [](const Record& record) {
    return record.machine.gpu ? record.machine.gpu->model : std::string();
  };
  const auto software = [](const Record& record) {
    return record.machine.gpu ? record.machine.gpu->software : std::string();
  };
  add("measured", base.time, next.time);
  add("commit", base.build.git_commit, next.build.git_commit);
  add("version", base.build.version, next.build.version);
  add("compiler", base.build.compiler, next.build.compiler);
  add("build type", base.build.build_type, next.build.build_type);
  add("flags", base.build.flags, next.build.flags);
  add("machine", base.machine.fingerprint, next.machine.fingerprint);
  add("processor", base.machine.cpu_model, next.machine.cpu_model);
  add("governor", base.machine.governor.value_or(""), next.machine.governor.value_or(""));
  add("system", base.machine.os, next.machine.os);
  add("kernel", base.machine.kernel, next.machine.kernel);
  add("GPU", gpu(base), gpu(next));
  add("GPU software", software(base), software(next));
  return table;
}

// "3 are SLOWER, 1 is FASTER and 8 are UNCLEAR (2 of them far apart)".
std::string counts_words(const Comparison& comparison) {
  std::map<std::string_view, int> counts;
  int in_doubt = 0;
  for (const RowComparison& row : comparison.rows) {
    ++counts[row.verdict ? verdict_name(*row.verdict) : "not compared"];
    in_doubt += row.in_doubt ? 1 : 0;
  }
  std::vector<std::string> words;
  for (const std::string_view name : {"SLOWER", "FASTER", "SAME", "UNCLEAR", "not compared"})
    if (const auto found = counts.find(name); found != counts.end())
      words.push_back(fmt::format("{} {} {}", found->second, found->second == 1 ? "is" : "are",
                                  name == "SAME" ? "the SAME" : name));
  std::string text = listed(words);
  if (in_doubt > 0) text += fmt::format(" ({} of them far apart)", in_doubt);
  return text;
}

// The answer in a word or two: "Slower", "Both", "Nothing is decided".
std::string direction_words(const Comparison& comparison) {
  size_t slower = 0, faster = 0, same = 0, unclear = 0;
  for (const RowComparison& row : comparison.rows)
    if (row.verdict)
      ++(*row.verdict == Verdict::slower   ? slower
         : *row.verdict == Verdict::faster ? faster
         : *row.verdict == Verdict::same   ? same
                                           : unclear);
  if (slower > 0 && faster > 0) return "Both";
  if (slower > 0) return "Slower";
  if (faster > 0) return "Faster";
  if (unclear > 0) return same > 0 ? "No change is seen" : "Nothing is decided";
  return same > 0 ? "Neither" : "Nothing was compared";
}

// Says how many lines got which verdict, the largest change, and the slowdown that can be seen.
std::string compared_words(const Comparison& comparison, const std::vector<NamedLine>& rows,
                           const std::string& of_side) {
  if (comparison.rows.empty()) return fmt::format("Nothing can be compared{}.", of_side);
  std::string text =
      fmt::format("{}: of {}{} {}.", direction_words(comparison),
                  counted(comparison.rows.size(), "comparison"), of_side, counts_words(comparison));
  if (!rows.empty() && rows.front()->judged() && rows.front()->verdict != Verdict::same)
    text += fmt::format(" The largest change: {} is {}.", rows.front().name,
                        times_as_fast(rows.front()->speedup()));
  else if (!rows.empty() && rows.front()->in_doubt)
    text +=
        fmt::format(" The largest difference, in doubt because {}: {} is {}.", rows.front()->note,
                    rows.front().name, times_as_fast(rows.front()->speedup()));
  std::vector<double> visible;
  for (const NamedLine& row : rows)
    if (std::isfinite(row->visible())) visible.push_back(row->visible());
  if (!visible.empty()) {
    std::ranges::nth_element(visible, visible.begin() + std::ssize(visible) / 2);
    const double middle = visible[visible.size() / 2];
    text += fmt::format(" In {} of them a slowdown of {} would have been seen.",
                        std::ranges::max(visible) > middle ? "half" : "all", percent_text(middle));
  }
  return text;
}

void add_side(const ReportContext& context, const ComparedSide& side, ReportSection& section) {
  constexpr size_t kMostDensities = 12;
  const Comparison& comparison = side.comparison;
  const std::vector<NamedLine> rows = by_change(comparison);
  ReportView view{.name = shown(side.name, 160), .pictures = 2};
  if (Chart chart = changes_chart(rows, comparison); !chart.series.empty())
    view.charts.push_back(std::move(chart));
  for (const NamedLine& row : rows) {
    if (view.charts.size() > kMostDensities) break;
    const Series *before = samples_of(side.base, row->base, row->phase),
                 *after = samples_of(side.next.empty() ? context.input.records : side.next,
                                     row->next, row->phase);
    if (!before || !after) continue;
    if (Chart chart = density_chart(row.name, before->samples_ms, after->samples_ms);
        !chart.series.empty())
      view.charts.push_back(std::move(chart));
  }
  if (!view.charts.empty()) section.views.push_back(std::move(view));
  const std::string of = section.tables.empty() ? "" : " (" + shown(side.name) + ")";
  if (!comparison.rows.empty())
    if (ReportTable facts =
            changed_facts(comparison.rows.front().base, comparison.rows.front().next);
        !facts.rows.empty()) {
      facts.title += of;
      section.tables.push_back(std::move(facts));
    }
  const Table verdicts = comparison_table(comparison);
  ReportTable table{.title = verdicts.title + of, .columns = verdicts.columns};
  for (const std::vector<std::string>& row : verdicts.rows) {
    std::vector<ReportCell>& cells = table.rows.emplace_back();
    for (const std::string& text : row) cells.push_back(cell_of(text));
  }
  section.tables.push_back(std::move(table));
  for (const std::string& sentence : comparison_sentences(comparison))
    section.sentences.push_back(sentence);
}

}  // namespace

ReportSection comparison_section(const ReportContext& context) {
  ReportSection section{.id = "verdicts",
                        .title = "Faster or slower",
                        .question = "Did it become faster or slower than the base?"};
  for (const ComparedSide& side : context.input.sides) {
    add_side(context, side, section);
    if (!section.answer.empty()) continue;
    const std::vector<NamedLine> rows = by_change(side.comparison);
    // The first side with a verdict gives the answer, with its name if there are several sides.
    std::string words = compared_words(
        side.comparison, rows,
        context.input.sides.size() > 1 ? fmt::format(" ({})", shown(side.name, 160)) : "");
    if (rows.empty()) {
      section.sentences.push_back(std::move(words));
      continue;
    }
    section.answer = std::move(words);
    Judged judged;
    for (const NamedLine& row : rows)
      judged.add(
          {.verdict = *row->verdict, .reason = doubt_words(*row.row), .is_apart = row->in_doubt});
    section.certainty = certainty_of(judged);
    // Any decided line makes the answer at least partly decided.
    if (judged.undecided < judged.compared &&
        section.certainty.level == Certainty::Level::undecided)
      section.certainty.level = Certainty::Level::partly;
  }
  return section;
}

}  // namespace ridgeline
