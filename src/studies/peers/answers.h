// What a worker answers, checked before anything uses it: peers are programs of others. Whatever is
// not as docs/peers.md has it is thrown as an environment error, which makes the row invalid.
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

// The object in a line.
struct WorkerAnswer {
  Json values;
  bool leave = false;                 // it asks to be ended
  std::optional<Error> refusal = {};  // its own words for why it does not do what it was asked
};
WorkerAnswer parse_answer(std::string_view line);

// Of "open".
struct OpenedRow {
  MemoryFacts memory;
  std::optional<Json> facts;
  std::optional<double> first_run_s;
};
OpenedRow read_opened(const Json& answer);

// Of "open" of a profile: what all steps have in common, and how many of them can be asked for.
struct OpenedProfile {
  Profile profile;  // without steps
  int steps = 0;
  std::string trace_not_written;  // why; empty: it was, or need not be
};
OpenedProfile read_opened_profile(const Json& answer, int most_steps);

// Of "step": adds it to the profile.
void read_profile_step(const Json& answer, Profile& profile);

// Of "sample": one list of times in milliseconds per sample, each as long as there are series.
std::vector<std::vector<double>> read_samples(const Json& answer, size_t series);

// Of "decode": the new tokens of the first text, and the time of every step in milliseconds.
struct DecodedText {
  std::vector<int32_t> tokens;
  std::vector<double> step_ms;
};
DecodedText read_decoded(const Json& answer, int64_t most_tokens);

// For readers of answers: a member, where null is as good as none; text of bounded length, empty
// where there is none; a time that is finite and not negative; and the error of all of them.
const Json* answer_member(const Json& object, const char* key);
std::string answer_text(const Json& object, const char* key);
bool is_answered_time(const Json& value);
Error unexpected_answer(std::string_view what, const Json& met, std::string_view expected);

// A refusal's word in answers, its error and the status of its row.
struct WorkerRefusal {
  std::string_view word;
  ErrorKind kind;
  Status status;
};
std::span<const WorkerRefusal> worker_refusals();

}  // namespace ridgeline
