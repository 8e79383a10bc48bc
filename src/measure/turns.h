// Lets another process lead a measurement, so that two programs can take samples in turns: A B B A.
//
// The leader (interleave.h) starts programs with kTurnsVariable set. A led program reports each row
// and each measurement as a line on stdout, and then reads from stdin how many samples to take.
// Studies need no code for this: measure() handles it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

inline constexpr const char* kTurnsVariable = "RIDGELINE_TURNS";

// A command of the leader.
struct Turn {
  enum class Kind { warm_up, sample, stop } kind = Kind::stop;
  int count = 0;  // of samples; warm_up first runs the warm-ups of the protocol
};
std::string turn_line(const Turn& turn);  // without a newline
std::optional<Turn> parse_turn(std::string_view line);

// A report of a led program.
struct TurnReport {
  enum class Kind {
    row,          // begins row `index`
    measurement,  // is set up and waits for turns; `names` are the phases
    samples,      // finished a turn; `samples_ms` per phase
  } kind = Kind::row;
  size_t index = 0;
  std::vector<std::string> names = {};
  std::vector<std::vector<double>> samples_ms = {};

  bool operator==(const TurnReport&) const = default;
};
std::string report_line(const TurnReport& report);
std::optional<TurnReport> parse_report(std::string_view line);  // nullopt: other output

// The side of a led program.
bool is_led();
void report_to_leader(const TurnReport& report);
Turn wait_for_turn();  // throws an environment error if the leader is gone

}  // namespace ridgeline
