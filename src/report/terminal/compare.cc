#include "report/terminal/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>

#include "base/printable.h"
#include "measure/record_text.h"
#include "report/record_cells.h"
#include "report/verdicts.h"

namespace ridgeline {
namespace {

// Limits on the keys of records that become columns, and on their texts: files may hold anything.
constexpr size_t kMaxKeys = 24;
constexpr size_t kMaxText = 100;

// A column that identifies rows: its name, and its value for a record.
struct Identity {
  std::string name;
  std::function<std::string(const Record&)> value;
};

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
  const std::string base = column.value(row.base), next = column.value(row.next);
  return base == next ? base : fmt::format("{} -> {}", base, next);
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
  Table table;
  std::vector<Identity> shown;
  for (const Identity& column : identity_columns(comparison)) {
    if (comparison.rows.empty()) break;
    if (varies(column, comparison)) {
      shown.push_back(column);
    } else if (const std::string value = both(column, comparison.rows.front()); !value.empty()) {
      const bool named =
          column.name == "study" || column.name == "implementation" || column.name == "device";
      table.title += (table.title.empty() ? "" : " ") + (named ? "" : column.name + "=") + value;
    }
  }
  for (const Identity& column : shown) table.columns.push_back(column.name);
  const std::string interval = fmt::format("{:.4g} % interval", 100 * comparison.confidence);
  table.columns.insert(table.columns.end(), {"phase", "base ms", "new ms", "speedup", interval,
                                             "change", "sees", "by", "verdict"});
  table.spare = {"change", "sees", "by", interval};
  const bool has_notes = std::any_of(comparison.rows.begin(), comparison.rows.end(),
                                     [](const auto& row) { return !row.note.empty(); });
  if (has_notes) table.columns.emplace_back("note");
  for (const RowComparison& row : comparison.rows) {
    std::vector<std::string> cells;
    for (const Identity& column : shown) cells.push_back(both(column, row));
    const bool known = row.verdict.has_value();
    const bool bounded = known && std::isfinite(row.log_time.low);
    cells.insert(
        cells.end(),
        {printable(row.phase, kMaxText), finite_cell(row.base_ms, "{:.4g}"),
         finite_cell(row.new_ms, "{:.4g}"), known ? finite_cell(row.speedup(), "{:.3f}x") : "",
         bounded ? fmt::format("{:.3f} to {:.3f}", row.speedup_low(), row.speedup_high()) : "",
         known ? change_text(row.speedup()) : "", bounded ? percent_text(row.visible()) : "",
         known ? evidence_text(row) : "", verdict_text(row)});
    if (has_notes) cells.push_back(row.note);
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Table comparison_csv(const Comparison& comparison) {
  const std::vector<Identity> identity = identity_columns(comparison);
  Table table;
  for (const Identity& column : identity) table.columns.push_back(column.name);
  table.columns.insert(table.columns.end(), {"phase",
                                             "base_median_ms",
                                             "new_median_ms",
                                             "speedup",
                                             "speedup_low",
                                             "speedup_high",
                                             "confidence",
                                             "improvement_pct",
                                             "noise_floor_pct",
                                             "noise_source",
                                             "pairing",
                                             "verdict",
                                             "evidence",
                                             "base_runs",
                                             "new_runs",
                                             "smallest_visible_pct",
                                             "two_modes",
                                             "base_peak_memory_mb",
                                             "new_peak_memory_mb",
                                             "base_status",
                                             "new_status",
                                             "base_commit",
                                             "new_commit",
                                             "base_time",
                                             "new_time",
                                             "note"});
  for (const RowComparison& row : comparison.rows) {
    std::vector<std::string> cells;
    for (const Identity& column : identity) cells.push_back(both(column, row));
    const auto known = [&](double value) {
      return row.verdict ? finite_cell(value, "{:.6g}") : std::string();
    };
    cells.insert(cells.end(), {printable(row.phase, kMaxText),
                               finite_cell(row.base_ms, "{:.6g}"),
                               finite_cell(row.new_ms, "{:.6g}"),
                               known(row.speedup()),
                               known(row.speedup_low()),
                               known(row.speedup_high()),
                               known(comparison.confidence),
                               known(row.improvement_percent()),
                               row.noise ? known(100 * row.noise->fraction) : "",
                               row.noise ? row.noise->source : "",
                               std::string(pairing_name(comparison.pairing)),
                               row.verdict ? verdict_text(row) : "",
                               row.verdict ? std::string(evidence_name(row.evidence)) : "",
                               std::to_string(row.base_runs),
                               std::to_string(row.new_runs),
                               known(100 * row.visible()),
                               row.two_modes ? "True" : "False",
                               cell(mebibytes(row.base.memory.peak), "{:.3f}"),
                               cell(mebibytes(row.next.memory.peak), "{:.3f}"),
                               std::string(status_csv_word(row.base.status)),
                               std::string(status_csv_word(row.next.status)),
                               printable(row.base.build.git_commit, kMaxText),
                               printable(row.next.build.git_commit, kMaxText),
                               printable(row.base.time, kMaxText),
                               printable(row.next.time, kMaxText),
                               row.note});
    table.rows.push_back(std::move(cells));
  }
  return table;
}

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
    out.push_back(
        fmt::format("Geometric mean of the speedups: {:.3f}x ({:.3f} to {:.3f}), {}{}.",
                    std::exp(-mean->estimate), std::exp(-mean->high), std::exp(-mean->low),
                    change_text(std::exp(-mean->estimate)),
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
        "What would decide: fresh runs of both sides{}, or both in turns: `ridgeline compare "
        "--interleave --binary BASE,NEW -- ...`.",
        unclear->next.command.empty()
            ? " (--runs 5)"
            : fmt::format(", such as `{} --runs 5`", printable(unclear->next.command, 300))));
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
