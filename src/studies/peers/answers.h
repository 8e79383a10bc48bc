// Parses and checks a worker's answers, because peers are foreign programs. Anything that differs
// from docs/peers.md throws an environment error, which makes the row invalid.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "measure/record.h"
#include "profile/profile.h"

namespace ridgeline {

// The object in one line of output.
struct WorkerAnswer {
  Json values;
  bool leave = false;                 // the worker asks to be ended
  std::optional<Error> refusal = {};  // why it refuses the request, in its own words
};
WorkerAnswer parse_answer(std::string_view line);

// The answer to "open".
struct OpenedRow {
  MemoryFacts memory;
  std::optional<Json> facts;
  std::optional<double> first_run_s;
};
OpenedRow read_opened(const Json& answer);

// The answer to "open" of a profile: what all steps share, and how many steps can be requested.
struct OpenedProfile {
  Profile profile;  // without steps
  int steps = 0;
  std::string trace_not_written;  // the reason; empty: written, or not requested
};
OpenedProfile read_opened_profile(const Json& answer, int most_steps);

// Adds the answer to "step" to the profile.
void read_profile_step(const Json& answer, Profile& profile);

// The answer to "sample": per sample a list of times in milliseconds, one for each series.
std::vector<std::vector<double>> read_samples(const Json& answer, size_t series);

// The answer to "decode": new tokens of the first sequence, and every step's time in milliseconds.
struct DecodedText {
  std::vector<int32_t> tokens;
  std::vector<double> step_ms;
};
DecodedText read_decoded(const Json& answer, int64_t most_tokens);

// Helpers for these parsers: a member, or null if it is missing or null; text of bounded length,
// empty if missing; whether a value is a finite time >= 0; and the error that all of them throw.
const Json* answer_member(const Json& object, const char* key);
std::string answer_text(const Json& object, const char* key);
bool is_answered_time(const Json& value);
Error unexpected_answer(std::string_view what, const Json& met, std::string_view expected);

// A refusal's word in answers, its error, and the status of its row.
struct WorkerRefusal {
  std::string_view word;
  ErrorKind kind;
  Status status;
};
std::span<const WorkerRefusal> worker_refusals();

}  // namespace ridgeline
