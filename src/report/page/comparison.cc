// The section of verdicts: what changed against a base, the samples behind it, and what else
// changed.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

#include "report/page/axis.h"
#include "report/page/density.h"
#include "report/page/sections.h"
#include "report/page/winners.h"
#include "report/terminal/compare.h"

namespace ridgeline {
namespace {

// Sorted by the number that it begins with, as "0.953x" and "3.20x slower" do: what is slower by
// more comes further down.
ReportCell cell_of(const std::string& text) {
  ReportCell cell{text, {}};
  double number = 0;
  const bool found =
      std::from_chars(text.data(), text.data() + text.size(), number).ec == std::errc{};
  if (found && std::isfinite(number))  // "nano" begins with a NaN
    cell.number = text.ends_with(" slower") ? -number : number;
  return cell;
}

// What tells the lines of a comparison apart: "flash, seq_len 4096, d_model 64, forward". The
// table's first columns are what differs, up to the phase.
std::vector<std::string> line_names(const Comparison& comparison) {
  const Table table = comparison_table(comparison);
  std::vector<std::string> names;
  for (const std::vector<std::string>& cells : table.rows) {
    std::string& name = names.emplace_back();
    for (size_t i = 0; i < cells.size(); ++i) {
      const bool is_number = !cells[i].empty() && cells[i][0] >= '0' && cells[i][0] <= '9';
      name += fmt::format("{}{}{}", name.empty() ? "" : ", ",
                          is_number ? table.columns[i] + " " : std::string(), cells[i]);
      if (table.columns[i] == "phase") break;
    }
    name = shown(name, 90);
  }
  return names;
}

// A line with its name.
struct NamedLine {
  const RowComparison* row;
  std::string name;

  const RowComparison* operator->() const { return row; }
};

// Those with a verdict, the largest changes first.
std::vector<NamedLine> by_change(const Comparison& comparison) {
  std::vector<NamedLine> rows;
  const std::vector<std::string> names = line_names(comparison);
  for (size_t i = 0; i < comparison.rows.size(); ++i) {
    const RowComparison& row = comparison.rows[i];
    if (row.verdict && std::isfinite(row.log_time.estimate)) rows.push_back({&row, names[i]});
  }
  std::ranges::stable_sort(rows, std::ranges::greater(), [](const NamedLine& row) {
    return std::pair(row->judged() && row->verdict != Verdict::same,
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
                  "New against base: how many times as fast, with an interval of {:.4g} %; left of "
                  "the line is slower.",
                  100 * comparison.confidence),
              .reference = 1.0};
  struct Kind {
    Verdict verdict;
    int colour;
  };
  constexpr Kind kKinds[] = {
      {Verdict::faster, 2}, {Verdict::slower, 5}, {Verdict::same, -1}, {Verdict::unclear, 4}};
  std::vector<double> values = {1};
  std::vector<ChartSeries> series;
  for (const Kind& kind : kKinds)
    series.push_back({.name = std::string(verdict_name(kind.verdict)), .colour = kind.colour});
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
      if (row.verdict == kKinds[k].verdict) series[k].points.push_back(std::move(point));
  }
  for (ChartSeries& each : series)
    if (!each.points.empty()) chart.series.push_back(std::move(each));
  chart.y =
      log_axis("times as fast as the base, logarithmic", Quantity::ratio, values, Better::higher);
  return chart;
}

const Series* samples_of(std::span<const Record> records, const Record& row,
                         const std::string& phase) {
  const std::string key = workload_key(row);
  for (const Record& record : records)
    if (workload_key(record) == key) return record.find_series(phase);
  return nullptr;
}

// What only one side has in common with itself.
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

std::string counts_words(const Comparison& comparison) {
  std::map<std::string_view, int> counts;
  for (const RowComparison& row : comparison.rows)
    ++counts[row.verdict ? verdict_name(*row.verdict) : "not compared"];
  std::string text;
  for (const std::string_view name : {"SLOWER", "FASTER", "SAME", "UNCLEAR", "not compared"})
    if (const auto found = counts.find(name); found != counts.end())
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", found->second, name);
  return text;
}

// How many got which verdict, the change that weighs most, and what could be seen.
std::string compared_words(const Comparison& comparison, const std::vector<NamedLine>& rows) {
  std::string text = fmt::format("Of {}: {}.", counted(comparison.rows.size(), "comparison"),
                                 counts_words(comparison));
  if (!rows.empty() && rows.front()->judged() && rows.front()->verdict != Verdict::same)
    text += fmt::format(" The largest change: {} is {}.", rows.front().name,
                        times_as_fast(rows.front()->speedup()));
  std::vector<double> visible;
  for (const NamedLine& row : rows)
    if (std::isfinite(row->visible())) visible.push_back(row->visible());
  if (!visible.empty()) {
    std::ranges::nth_element(visible, visible.begin() + std::ssize(visible) / 2);
    text += fmt::format(" In half of them a slowdown of {} would have been seen.",
                        percent_text(visible[visible.size() / 2]));
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
    section.answer = compared_words(side.comparison, rows);
    Reasons reasons;
    size_t unclear = 0;
    for (const NamedLine& row : rows)
      if (row->verdict == Verdict::unclear) {
        ++unclear;
        reasons.add(row->note.empty() ? "too close to call" : row->note);
      }
    section.certainty = certainty_of(std::max<size_t>(rows.size(), 1), unclear, reasons);
  }
  return section;
}

}  // namespace ridgeline
