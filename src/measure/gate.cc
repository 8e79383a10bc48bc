#include "measure/gate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/parse_number.h"
#include "base/printable.h"
#include "measure/record_text.h"

namespace ridgeline {

// The judgement of a gate on a row, or on the whole comparison.
struct GateJudgement {
  enum class Outcome { passed, failed, undecided };
  Outcome outcome = Outcome::passed;
  std::string why = {};
};

struct GateRule {
  std::string_view name;
  bool takes_limit;
  std::string_view help;
  // Every gate ignores differences within the comparison's tolerance. Null: not judged.
  GateJudgement (*of_row)(const RowComparison&, double limit, double tolerance);
  GateJudgement (*of_all)(const Comparison&, double limit);
};

namespace {

using Outcome = GateJudgement::Outcome;

bool both_ran(const RowComparison& row) {
  return row.base.status == Status::ok && row.next.status == Status::ok;
}

// Fails if a slowdown is significant and its estimate exceeds the limit; passes if the interval
// excludes a slowdown above the limit.
GateJudgement slowdown(const Shift& log_time, double limit, double tolerance) {
  const double at_most = std::log1p(std::max(limit, tolerance));
  if (log_time.low > std::log1p(tolerance) && log_time.estimate > std::log1p(limit))
    return {Outcome::failed,
            fmt::format("by {:.1f} %, at least by {:.1f} %", 100 * std::expm1(log_time.estimate),
                        100 * std::expm1(log_time.low))};
  if (log_time.high <= at_most) return {};
  return {Outcome::undecided, fmt::format("a slowdown of up to {} cannot be ruled out",
                                          percent_text(std::expm1(log_time.high)))};
}

GateJudgement slower(const RowComparison& row, double limit, double tolerance) {
  if (!row.verdict)
    return both_ran(row) ? GateJudgement{Outcome::undecided, row.note} : GateJudgement{};
  // An UNCLEAR row may have an interval that fails the gate; its note says why it does not count.
  const GateJudgement found = slowdown(row.log_time, limit, tolerance);
  if (found.outcome == Outcome::failed && row.verdict == Verdict::unclear)
    return {Outcome::undecided, row.note};
  return found.outcome == Outcome::failed ? GateJudgement{found.outcome, "SLOWER " + found.why}
                                          : found;
}

GateJudgement unclear(const RowComparison& row, double, double) {
  if (row.verdict == Verdict::unclear) return {Outcome::failed, "UNCLEAR: " + row.note};
  return both_ran(row) && !row.verdict ? GateJudgement{Outcome::failed, row.note} : GateJudgement{};
}

GateJudgement memory(const RowComparison& row, double limit, double) {
  if (!both_ran(row)) return {};
  const auto base = row.base.memory.peak, next = row.next.memory.peak;
  if (!base || !next || base->count <= 0)
    return {Outcome::undecided, "no peak memory was measured on both sides"};
  const double growth = static_cast<double>(next->count) / static_cast<double>(base->count) - 1;
  if (growth <= limit) return {};
  return {Outcome::failed, fmt::format("peak memory grew by {:.1f} %, from {} to {}", 100 * growth,
                                       to_string(*base), to_string(*next))};
}

GateJudgement geomean(const Comparison& comparison, double limit) {
  const std::optional<Shift> mean = comparison.mean_log_time();
  if (!mean) return {Outcome::undecided, "no row was measured on both sides"};
  for (const RowComparison& row : comparison.rows)
    if (row.in_doubt)
      return {Outcome::undecided, "the machine may explain the difference: " + row.note};
  GateJudgement found = slowdown(*mean, limit, comparison.tolerance);
  if (found.outcome == Outcome::failed) found.why = "slower in the geometric mean " + found.why;
  return found;
}

GateJudgement missing(const Comparison& comparison, double) {
  if (comparison.missing.empty()) return {};
  return {Outcome::failed, fmt::format("{} rows or phases of the base are missing, such as {}",
                                       comparison.missing.size(), comparison.missing.front())};
}

constexpr GateRule kRules[] = {
    {"slower", true, "a row is SLOWER, and by more than P", slower, nullptr},
    {"geomean", true, "all rows together are slower by more than P", nullptr, geomean},
    {"memory", true, "the peak memory of a row grew by more than P", memory, nullptr},
    {"unclear", false, "a row is UNCLEAR or could not be compared", unclear, nullptr},
    {"missing", false, "a row or phase of the base is not in the new results", nullptr, missing},
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
  if (!rule->takes_limit) throw wrong("no limit after this name");
  if (!number.ends_with('%')) throw wrong("a percentage such as slower:3%");
  number.remove_suffix(1);
  const std::optional<double> percent = parse_number<double>(number);
  if (!percent || !(*percent >= 0) || !std::isfinite(*percent))
    throw wrong("a percentage of at least 0");
  gate.limit = *percent / 100;
  return gate;
}

GateResult judge(const Gate& gate, const Comparison& comparison) {
  GateResult result;
  const auto take = [&](const GateJudgement& found, const std::string& where) {
    if (found.outcome == Outcome::passed) return;
    auto& list = found.outcome == Outcome::failed ? result.failures : result.undecided;
    list.push_back(fmt::format("{}: {}{}", gate.text, where, found.why));
  };
  bool any = false;
  for (const RowComparison& row : comparison.rows) {
    any = any || both_ran(row);
    if (row.broke())
      take({Outcome::failed, row.note}, place(row) + ": ");
    else if (gate.rule->of_row)
      take(gate.rule->of_row(row, gate.limit, comparison.tolerance), place(row) + ": ");
  }
  if (gate.rule->of_all) take(gate.rule->of_all(comparison, gate.limit), "");
  if (!any && result.failures.empty() && result.undecided.empty() && gate.rule->of_row)
    take({Outcome::undecided, "no row was measured on both sides"}, "");
  return result;
}

bool is_decided(const Gate& gate, const RowComparison& row, double tolerance) {
  return !gate.rule->of_row ||
         gate.rule->of_row(row, gate.limit, tolerance).outcome != Outcome::undecided;
}

}  // namespace ridgeline
