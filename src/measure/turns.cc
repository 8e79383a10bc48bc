#include "measure/turns.h"

#include <fmt/format.h>

#include <cstdio>
#include <iostream>
#include <sstream>

#include "base/enum_names.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/print.h"
#include "base/printable.h"

namespace ridgeline {
namespace {

// Distinguishes reports from the tables that studies print.
constexpr std::string_view kPrefix = "turns: ";
constexpr size_t kMaxCount = 100'000;

constexpr EnumNames<Turn::Kind, Turn::Kind::stop> kTurns("warm_up", "sample", "stop");
constexpr EnumNames<TurnReport::Kind, TurnReport::Kind::samples> kReports("row", "measurement",
                                                                          "samples");

}  // namespace

std::string turn_line(const Turn& turn) {
  return fmt::format("{} {}", kTurns[turn.kind], turn.count);
}

std::optional<Turn> parse_turn(std::string_view line) {
  std::istringstream in{std::string(line)};
  std::string text;
  Turn turn;
  in >> text >> turn.count;
  const auto kind = kTurns.find(text);
  if (!in || !kind || turn.count < 0) return std::nullopt;
  turn.kind = *kind;
  return turn;
}

std::string report_line(const TurnReport& report) {
  std::string text = fmt::format("{}{} {}", kPrefix, kReports[report.kind], report.index);
  for (const std::string& name : report.names) text += " " + name;
  for (const std::vector<double>& phase : report.samples_ms) {
    text += fmt::format(" {}", phase.size());
    for (const double sample : phase) text += fmt::format(" {:.17g}", sample);
  }
  return text;
}

std::optional<TurnReport> parse_report(std::string_view line) {
  if (!line.starts_with(kPrefix)) return std::nullopt;
  std::istringstream in{std::string(line.substr(kPrefix.size()))};
  std::string text;
  TurnReport report;
  in >> text >> report.index;
  const auto kind = kReports.find(text);
  if (!in || !kind) return std::nullopt;
  report.kind = *kind;
  if (report.kind == TurnReport::Kind::measurement)
    for (std::string name; in >> name;) report.names.push_back(name);
  if (report.kind != TurnReport::Kind::samples) return report;
  for (size_t count = 0; in >> count;) {
    if (count > kMaxCount) return std::nullopt;
    for (double& sample : report.samples_ms.emplace_back(count))
      if (!(in >> sample)) return std::nullopt;
  }
  return report;
}

bool is_led() {
  return !environment(kTurnsVariable).empty();
}

void report_to_leader(const TurnReport& report) {
  print("{}\n", report_line(report));
  std::fflush(stdout);
}

Turn wait_for_turn() {
  std::string line;
  if (!std::getline(std::cin, line))
    throw Error(ErrorKind::environment,
                "the comparison that this program takes turns in has ended");
  const auto turn = parse_turn(line);
  if (!turn)
    throw Error(ErrorKind::environment,
                fmt::format("'{}' is not a turn to take", printable(line, 80)),
                fmt::format("unset {}; `ridgeline compare --interleave` sets it", kTurnsVariable));
  return *turn;
}

}  // namespace ridgeline
