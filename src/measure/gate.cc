#include "measure/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "measure/record_text.h"

namespace ridgeline {

struct GateRule {
  std::string_view name;
  bool takes_limit;
  std::string_view help;
  // Why a row, or the whole, fails; empty: it does not.
  std::string (*of_row)(const RowComparison&, double limit);
  std::string (*of_all)(const Comparison&, double limit);
  // Which rows tell it anything; where none does the gate has not been passed. Null: it needs none.
  bool (*judges)(const RowComparison&);
};

namespace {

std::string slower(const RowComparison& row, double limit) {
  if (row.verdict != Verdict::slower || row.slowdown() <= limit) return {};
  return fmt::format("SLOWER by {:.1f} %", 100 * row.slowdown());
}

std::string unclear(const RowComparison& row, double) {
  if (row.verdict == Verdict::unclear) return "UNCLEAR";
  const bool both_ran = row.base.status == Status::ok && row.next.status == Status::ok;
  return both_ran && !row.verdict ? row.note : "";
}

bool is_judged(const RowComparison& row) {
  return row.judged();
}

bool has_peaks(const RowComparison& row) {
  return row.base.memory.peak && row.next.memory.peak;
}

std::string memory(const RowComparison& row, double limit) {
  const auto base = row.base.memory.peak, next = row.next.memory.peak;
  if (!base || !next || base->count <= 0) return {};
  const double growth = static_cast<double>(next->count) / static_cast<double>(base->count) - 1;
  if (growth <= limit) return {};
  return fmt::format("peak memory grew by {:.1f} %, from {} to {}", 100 * growth, to_string(*base),
                     to_string(*next));
}

std::string geomean(const Comparison& comparison, double limit) {
  const std::optional<Shift> mean = comparison.mean_log_time();
  double floor = 0;  // the mean of the rows' own
  int judged = 0;
  for (const RowComparison& row : comparison.rows)
    if (row.judged()) floor += std::log1p(row.noise.fraction), ++judged;
  if (!mean || mean->low <= std::max(std::log1p(limit), floor / judged)) return {};
  return fmt::format("slower by {:.1f} % in the geometric mean, at least by {:.1f} %",
                     100 * std::expm1(mean->estimate), 100 * std::expm1(mean->low));
}

std::string missing(const Comparison& comparison, double) {
  if (comparison.missing.empty()) return {};
  return fmt::format("{} rows or phases of the base are missing, such as {}",
                     comparison.missing.size(), comparison.missing.front());
}

constexpr GateRule kRules[] = {
    {"slower", true, "a row is SLOWER, and by more than P", slower, nullptr, is_judged},
    {"geomean", true, "all rows together are slower by more than P", nullptr, geomean, is_judged},
    {"memory", true, "the peak memory of a row grew by more than P", memory, nullptr, has_peaks},
    {"unclear", false, "a row is UNCLEAR or could not be compared", unclear, nullptr, nullptr},
    {"missing", false, "a row or phase of the base is not in the new results", nullptr, missing,
     nullptr},
};

std::string place(const RowComparison& row) {
  return fmt::format("{} {}{}", printable(row.next.implementation, 60), printable(row.phase, 60),
                     values_text(row.base.workload));
}

}  // namespace

std::string gate_help() {
  std::string text;
  for (const GateRule& rule : kRules)
    text += fmt::format("{}{}{} ({})", text.empty() ? "" : ", ", rule.name,
                        rule.takes_limit ? ":P%" : "", rule.help);
  return text;
}

Gate parse_gate(std::string_view text) {
  const size_t colon = text.find(':');
  const auto rule = std::find_if(std::begin(kRules), std::end(kRules), [&](const GateRule& r) {
    return r.name == text.substr(0, colon);
  });
  const auto wrong = [&](const char* expected) {
    return Error(ErrorKind::usage,
                 fmt::format("'{}' is not a gate: expected {}", printable(text, 60), expected),
                 "gates fail when: " + gate_help());
  };
  if (rule == std::end(kRules)) throw wrong("one of the names below");
  Gate gate{&*rule, 0, std::string(text)};
  if (colon == std::string_view::npos) return gate;
  std::string_view number = text.substr(colon + 1);
  if (!rule->takes_limit || !number.ends_with('%')) throw wrong("a percentage such as slower:3%");
  number.remove_suffix(1);
  const auto [end, problem] =
      std::from_chars(number.data(), number.data() + number.size(), gate.limit);
  if (problem != std::errc{} || end != number.data() + number.size() || !(gate.limit >= 0) ||
      !std::isfinite(gate.limit))
    throw wrong("a percentage of at least 0");
  gate.limit /= 100;
  return gate;
}

std::vector<std::string> failures(const Gate& gate, const Comparison& comparison) {
  std::vector<std::string> out;
  for (const RowComparison& row : comparison.rows) {
    std::string why = row.broke() ? row.note : std::string();
    if (why.empty() && gate.rule->of_row) why = gate.rule->of_row(row, gate.limit);
    if (!why.empty()) out.push_back(fmt::format("{}: {}: {}", gate.text, place(row), why));
  }
  if (gate.rule->of_all)
    if (const std::string why = gate.rule->of_all(comparison, gate.limit); !why.empty())
      out.push_back(fmt::format("{}: {}", gate.text, why));
  if (out.empty() && gate.rule->judges &&
      std::none_of(comparison.rows.begin(), comparison.rows.end(), gate.rule->judges))
    out.push_back(
        fmt::format("{}: nothing to judge: no row was measured well enough on both sides; measure "
                    "them in turns "
                    "(--interleave), or this machine's noise first (`ridgeline noise`)",
                    gate.text));
  return out;
}

}  // namespace ridgeline
