#include "report/terminal/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/printable.h"
#include "measure/record_text.h"
#include "report/record_cells.h"
#include "report/terminal/columns.h"
#include "report/verdicts.h"

namespace ridgeline {
namespace {

// Limits on the keys of records that become columns, and on their texts: files may hold anything.
constexpr size_t kMaxKeys = 24;
constexpr size_t kMaxText = 100;

using Identity = Column<Record>;  // identifies rows
using Line = RowComparison;

void add_keys(std::vector<Identity>& columns, const Comparison& comparison, Json Record::*part) {
  std::vector<std::string> keys;
  for (const RowComparison& row : comparison.rows)
    for (const Record* record : {&row.base, &row.next})
      for (const auto& [key, ignored] : (record->*part).items())
        if (keys.size() < kMaxKeys && std::find(keys.begin(), keys.end(), key) == keys.end())
          keys.push_back(key);
  for (const std::string& key : keys)
    columns.push_back({printable(key, kMaxText), [key, part](const Record& record) {
                         const Json* found = (record.*part).find_key(key);
                         return found ? value_text(*found) : std::string();
                       }});
}

std::vector<Identity> identity_columns(const Comparison& comparison) {
  std::vector<Identity> columns = {
      {"study", [](const Record& record) { return printable(record.study, kMaxText); }},
      {"implementation",
       [](const Record& record) { return printable(record.implementation, kMaxText); }},
      {"device", [](const Record& record) { return printable(record.device, kMaxText); }}};
  add_keys(columns, comparison, &Record::workload);
  add_keys(columns, comparison, &Record::settings);
  return columns;
}

// "flash", or "naive -> flash" where the sides differ.
std::string both(const Identity& column, const RowComparison& row) {
  const std::string base = column.cell(row.base), next = column.cell(row.next);
  return base == next ? base : fmt::format("{} -> {}", base, next);
}

Column<Line> both(const Identity& column) {
  return {column.name, [column](const Line& line) { return both(column, line); }};
}

bool varies(const Identity& column, const Comparison& comparison) {
  return std::any_of(comparison.rows.begin(), comparison.rows.end(), [&](const auto& row) {
    return both(column, row) != both(column, comparison.rows.front());
  });
}

std::string finite_cell(double value, const char* format) {
  return std::isfinite(value) ? fmt::format(fmt::runtime(format), value) : std::string();
}

// "1.250x faster", "3.170x slower", "none".
std::string change_text(double speedup) {
  const std::string text = times_text(speedup, 3);
  if (text.ends_with("slower")) return text;
  return text == times_text(1, 3) ? "none" : text + " faster";
}

// "rounds", "5 and 5 runs", "floor of 8.1 %", "single runs".
std::string evidence_text(const RowComparison& row) {
  switch (row.evidence) {
    case Evidence::rounds:
      return "rounds";
    case Evidence::runs:
      return fmt::format("{} and {} runs", row.base_runs, row.new_runs);
    case Evidence::floor:
      return "floor of " + percent_text(row.noise->fraction);
    case Evidence::single:
      return "single runs";
  }
  return {};
}

std::string verdict_text(const RowComparison& row) {
  return row.verdict ? std::string(verdict_name(*row.verdict)) : std::string("-");
}

}  // namespace

Table comparison_table(const Comparison& comparison) {
  std::string title;
  std::vector<Column<Line>> columns;
  for (const Identity& column : identity_columns(comparison)) {
    if (comparison.rows.empty()) break;
    if (varies(column, comparison)) {
      columns.push_back(both(column));
    } else if (const std::string value = both(column, comparison.rows.front()); !value.empty()) {
      const bool named =
          column.name == "study" || column.name == "implementation" || column.name == "device";
      title += (title.empty() ? "" : " ") + (named ? "" : column.name + "=") + value;
    }
  }
  const auto if_known = [](auto text) {
    return [=](const Line& line) { return line.verdict ? text(line) : std::string(); };
  };
  const auto if_bounded = [&](auto text) {
    return if_known([=](const Line& line) {
      return std::isfinite(line.log_time.low) ? text(line) : std::string();
    });
  };
  const std::string interval = fmt::format("{:.4g} % interval", 100 * comparison.confidence);
  append<Line>(columns,
               {{"phase", [](const Line& line) { return printable(line.phase, kMaxText); }},
                {"base ms", [](const Line& line) { return finite_cell(line.base_ms, "{:.4g}"); }},
                {"new ms", [](const Line& line) { return finite_cell(line.new_ms, "{:.4g}"); }},
                {"speedup",
                 if_known([](const Line& line) { return finite_cell(line.speedup(), "{:.3f}x"); })},
                {interval, if_bounded([](const Line& line) {
                   return fmt::format("{:.3f} to {:.3f}", line.speedup_low(), line.speedup_high());
                 })},
                {"change", if_known([](const Line& line) { return change_text(line.speedup()); })},
                {"sees", if_bounded([](const Line& line) { return percent_text(line.visible()); })},
                {"by", if_known(evidence_text)},
                {"verdict", verdict_text},
                {"note", [](const Line& line) { return line.note; },
                 std::ranges::any_of(comparison.rows,
                                     [](const Line& line) { return !line.note.empty(); })}});
  return table_of(title, columns, comparison.rows, {"change", "sees", "by", interval});
}

Table comparison_csv(const Comparison& comparison) {
  // A figure of lines that have a verdict.
  const auto known = [](auto of) {
    return [=](const Line& line) {
      return line.verdict ? finite_cell(std::invoke(of, line), "{:.6g}") : std::string();
    };
  };
  const auto of = [](Record Line::*side, auto text) {
    return [=](const Line& line) { return text(line.*side); };
  };
  const auto peak = [](const Record& record) { return cell(mebibytes(record.memory.peak)); };
  const auto status = [](const Record& record) {
    return std::string(status_csv_word(record.status));
  };
  const auto commit = [](const Record& record) {
    return printable(record.build.git_commit, kMaxText);
  };
  const auto time = [](const Record& record) { return printable(record.time, kMaxText); };
  std::vector<Column<Line>> columns;
  for (const Identity& column : identity_columns(comparison)) columns.push_back(both(column));
  append<Line>(
      columns,
      {{"phase", [](const Line& line) { return printable(line.phase, kMaxText); }},
       {"base_median_ms", [](const Line& line) { return finite_cell(line.base_ms, "{:.6g}"); }},
       {"new_median_ms", [](const Line& line) { return finite_cell(line.new_ms, "{:.6g}"); }},
       {"speedup", known(&Line::speedup)},
       {"speedup_low", known(&Line::speedup_low)},
       {"speedup_high", known(&Line::speedup_high)},
       {"confidence", known([&](const Line&) { return comparison.confidence; })},
       {"improvement_pct", known(&Line::improvement_percent)},
       {"noise_floor_pct", known([](const Line& line) {
          return line.noise ? 100 * line.noise->fraction : Statistics::kUnknown;
        })},
       {"noise_source",
        [](const Line& line) { return line.noise ? line.noise->source : std::string(); }},
       {"pairing", [&](const Line&) { return std::string(pairing_name(comparison.pairing)); }},
       {"verdict", [](const Line& line) { return line.verdict ? verdict_text(line) : ""; }},
       {"evidence",
        [](const Line& line) {
          return std::string(line.verdict ? evidence_name(line.evidence) : "");
        }},
       {"base_runs", [](const Line& line) { return std::to_string(line.base_runs); }},
       {"new_runs", [](const Line& line) { return std::to_string(line.new_runs); }},
       {"smallest_visible_pct", known([](const Line& line) { return 100 * line.visible(); })},
       {"two_modes", [](const Line& line) { return line.two_modes ? "True" : "False"; }},
       {"base_peak_memory_mb", of(&Line::base, peak)},
       {"new_peak_memory_mb", of(&Line::next, peak)},
       {"base_status", of(&Line::base, status)},
       {"new_status", of(&Line::next, status)},
       {"base_commit", of(&Line::base, commit)},
       {"new_commit", of(&Line::next, commit)},
       {"base_time", of(&Line::base, time)},
       {"new_time", of(&Line::next, time)},
       {"note", [](const Line& line) { return line.note; }}});
  return table_of("", columns, comparison.rows);
}

namespace {

bool is_of_a_peer(const Record& record) {
  return record.metrics && record.metrics->contains("peer");
}

// How both sides can be measured in turns; empty for peers, which cannot.
std::string in_turns(const Record& base, const Record& next) {
  if (is_of_a_peer(base) || is_of_a_peer(next)) return "";
  return fmt::format(", or both in turns: `ridgeline compare --interleave {} -- ...`",
                     base.implementation == next.implementation
                         ? "--binary BASE,NEW"
                         : fmt::format("--impl {},{}", printable(base.implementation, 60),
                                       printable(next.implementation, 60)));
}

}  // namespace

std::vector<std::string> comparison_sentences(const Comparison& comparison) {
  std::vector<std::string> out;
  std::map<std::string, int> counts;
  for (const RowComparison& row : comparison.rows) ++counts[verdict_text(row)];
  std::string verdicts;
  for (const auto& [name, count] : counts)
    verdicts += fmt::format("{}{} {}", verdicts.empty() ? "" : ", ", count,
                            name == "-" ? "not compared" : name);
  out.push_back(verdicts + ".");
  if (const auto mean = comparison.mean_log_time()) {
    const auto judged =
        std::count_if(comparison.rows.begin(), comparison.rows.end(),
                      [](const RowComparison& row) { return row.verdict.has_value(); });
    const std::string of_medians = fmt::format("{:.3f}x", comparison.mean_speedup());
    const std::string of_evidence = fmt::format("{:.3f}x", std::exp(-mean->estimate));
    out.push_back(fmt::format(
        "Geometric mean of the speedups: {}{} ({:.3f} to {:.3f}), {}{}.",
        of_medians == of_evidence ? "" : of_medians + ", by the rounds ", of_evidence,
        std::exp(-mean->high), std::exp(-mean->low), change_text(std::exp(-mean->estimate)),
        judged == std::ssize(comparison.rows)
            ? ""
            : fmt::format(", over {} of {} lines", judged, comparison.rows.size())));
    if (const auto in_doubt = std::count_if(comparison.rows.begin(), comparison.rows.end(),
                                            [](const RowComparison& row) { return row.in_doubt; }))
      out.back() += fmt::format(" {} of the lines {} in doubt, because of the machine.", in_doubt,
                                in_doubt == 1 ? "is" : "are");
  }
  const auto two_modes = std::count_if(comparison.rows.begin(), comparison.rows.end(),
                                       [](const RowComparison& row) { return row.two_modes; });
  if (two_modes > 0)
    out.push_back(
        fmt::format("{} two modes: the medians tell of another difference than the quickest {}.",
                    two_modes == 1 ? "1 line has" : fmt::format("{} lines have", two_modes),
                    comparison.pairing == Pairing::interleaved ? "samples" : "samples or runs"));
  const auto unclear =
      std::find_if(comparison.rows.begin(), comparison.rows.end(),
                   [](const RowComparison& row) { return row.verdict == Verdict::unclear; });
  if (unclear != comparison.rows.end() && comparison.pairing == Pairing::separate)
    out.push_back(fmt::format(
        "What would decide: fresh runs of both sides{}{}.",
        unclear->next.command.empty()
            ? " (--runs 5)"
            : fmt::format(", such as `{} --runs 5`", printable(unclear->next.command, 300)),
        in_turns(unclear->base, unclear->next)));
  else if (unclear != comparison.rows.end())
    out.push_back("What would decide: a larger --time-budget and more --rounds.");
  if (!comparison.missing.empty())
    out.push_back(fmt::format(
        "{} not in the new results, such as {}.",
        comparison.missing.size() == 1
            ? "1 row or phase of the base is"
            : fmt::format("{} rows or phases of the base are", comparison.missing.size()),
        comparison.missing.front()));
  for (const std::string& note : comparison.notes) out.push_back("Note: " + note + ".");
  return out;
}

std::string comparison_markdown(const Comparison& comparison) {
  std::string text = "# Comparison\n\n" + to_markdown(comparison_table(comparison)) + "\n";
  for (const std::string& sentence : comparison_sentences(comparison))
    text += "- " + markdown_text(sentence) + "\n";
  return text;
}

}  // namespace ridgeline
