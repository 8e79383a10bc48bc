// Lets another process lead a measurement, so that two programs can take samples in turns: A B B A.
//
// The leader (interleave.h) starts programs with kTurnsVariable set. A program that finds it
// reports each row and each measurement as a line of its stdout, and then waits on its stdin to be
// told how many samples to take. Studies need not know: measure() asks for turns by itself.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ridgeline {

inline constexpr const char* kTurnsVariable = "RIDGELINE_TURNS";

// What the leader says.
struct Turn {
  enum class Kind { warm_up, sample, stop } kind = Kind::stop;
  int count = 0;  // of samples; warm-ups before them are as many as the protocol has
};
std::string turn_line(const Turn& turn);  // without a newline
std::optional<Turn> parse_turn(std::string_view line);

// What a led program says.
struct TurnReport {
  enum class Kind {
    row,          // begins row `index`
    measurement,  // has set up and waits; `names` are the phases
    samples,      // took what it was told to; `samples_ms` per phase
  } kind = Kind::row;
  size_t index = 0;
  std::vector<std::string> names = {};
  std::vector<std::vector<double>> samples_ms = {};

  bool operator==(const TurnReport&) const = default;
};
std::string report_line(const TurnReport& report);
std::optional<TurnReport> parse_report(std::string_view line);  // empty: other output

// Whether this process is led, and its side of the conversation.
bool is_led();
void report_to_leader(const TurnReport& report);
Turn wait_for_turn();  // throws an environment error when the leader is gone

}  // namespace ridgeline
