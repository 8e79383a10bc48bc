#include "studies/peers/answers.h"

#include <fmt/format.h>

#include <cmath>

#include "base/printable.h"

namespace ridgeline {
namespace {

constexpr size_t kLongestReason = 4000;  // compiler logs are long, lines of records bounded
constexpr size_t kLongestFacts = size_t{64} << 10;
constexpr int64_t kMostBytes = int64_t{1} << 60;

constexpr WorkerRefusal kRefusals[] = {
    {"oom", ErrorKind::out_of_memory, Status::oom},
    {"unsupported", ErrorKind::unsupported, Status::unsupported},
    {"wrong", ErrorKind::wrong_result, Status::wrong},
    {"invalid", ErrorKind::environment, Status::invalid},
};

std::optional<Bytes> bytes_of(const Json& memory, const char* key) {
  const Json* bytes = answer_member(memory, key);
  if (bytes == nullptr) return std::nullopt;
  const bool fits = bytes->is_number_integer() && bytes->get<double>() >= 0 &&
                    bytes->get<double>() <= static_cast<double>(kMostBytes);
  if (!fits) throw unexpected_answer(fmt::format("'{}'", key), *bytes, "a number of bytes");
  return Bytes{bytes->get<int64_t>()};
}

}  // namespace

Error unexpected_answer(std::string_view what, const Json& met, std::string_view expected) {
  return Error(ErrorKind::environment, fmt::format("answered with {} as {}, expected {}", what,
                                                   printable(met.dump(), 80), expected));
}

const Json* answer_member(const Json& object, const char* key) {
  const Json* found = object.find_key(key);
  return found && !found->is_null() ? found : nullptr;
}

std::string answer_text(const Json& object, const char* key) {
  const Json* text = answer_member(object, key);
  if (text == nullptr) return {};
  if (!text->is_string()) throw unexpected_answer(fmt::format("'{}'", key), *text, "text");
  return text->get<std::string>().substr(0, kLongestReason);
}

bool is_answered_time(const Json& value) {
  return value.is_number() && std::isfinite(value.get<double>()) && value.get<double>() >= 0;
}

std::span<const WorkerRefusal> worker_refusals() {
  return kRefusals;
}

WorkerAnswer parse_answer(std::string_view line) {
  WorkerAnswer answer;
  try {
    answer.values = Json::parse(line);
  } catch (const JsonError& error) {
    throw Error(ErrorKind::environment,
                fmt::format("answered with a line that {}: {}", error.what(), printable(line, 80)));
  }
  if (!answer.values.is_object())
    throw Error(ErrorKind::environment, "answered with no JSON object: " + printable(line, 80));
  if (const Json* leave = answer_member(answer.values, "leave")) {
    if (!leave->is_boolean()) throw unexpected_answer("'leave'", *leave, "true or false");
    answer.leave = leave->get<bool>();
  }
  const std::string failed = answer_text(answer.values, "failed");
  if (failed.empty()) return answer;
  for (const WorkerRefusal& refusal : kRefusals)
    if (refusal.word == failed)
      answer.refusal.emplace(refusal.kind, answer_text(answer.values, "error"),
                             answer_text(answer.values, "next_step"));
  if (!answer.refusal)
    throw Error(ErrorKind::environment,
                "refused in a word that is not known: " + printable(failed, 80));
  return answer;
}

OpenedRow read_opened(const Json& answer) {
  OpenedRow row;
  if (const Json* memory = answer_member(answer, "memory")) {
    if (!memory->is_object()) throw unexpected_answer("'memory'", *memory, "an object");
    row.memory.before_backward = bytes_of(*memory, "before_backward_bytes");
    row.memory.peak = bytes_of(*memory, "peak_bytes");
    row.memory.process_peak_growth = bytes_of(*memory, "process_peak_growth_bytes");
  }
  if (const Json* facts = answer_member(answer, "facts")) {
    if (!facts->is_object()) throw unexpected_answer("'facts'", *facts, "an object");
    if (const size_t size = facts->dump().size(); size > kLongestFacts)
      throw Error(ErrorKind::environment,
                  fmt::format("answered with 'facts' of {} bytes, expected at most {}", size,
                              kLongestFacts));
    row.facts = *facts;
  }
  if (const Json* seconds = answer_member(answer, "first_run_s")) {
    if (!is_answered_time(*seconds))
      throw unexpected_answer("'first_run_s'", *seconds, "a time in seconds");
    row.first_run_s = seconds->get<double>();
  }
  return row;
}

DecodedText read_decoded(const Json& answer, int64_t most_tokens) {
  const auto list_of = [&](const char* key, int64_t most) -> const Json& {
    const Json* found = answer_member(answer, key);
    if (found == nullptr || !found->is_array() || static_cast<int64_t>(found->size()) > most)
      throw Error(ErrorKind::environment,
                  fmt::format("answered without '{}', expected a list of at most {}", key, most));
    return *found;
  };
  DecodedText text;
  for (const Json& id : list_of("tokens", most_tokens)) {
    const bool is_id =
        id.is_number_integer() && id.get<double>() >= 0 && id.get<double>() < 1 << 24;
    if (!is_id) throw unexpected_answer("a token", id, "an id");
    text.tokens.push_back(id.get<int32_t>());
  }
  for (const Json& ms : list_of("step_ms", most_tokens)) {
    if (!is_answered_time(ms)) throw unexpected_answer("the time of a step", ms, "milliseconds");
    text.step_ms.push_back(ms.get<double>());
  }
  if (text.tokens.empty()) throw Error(ErrorKind::environment, "answered without a token");
  return text;
}

std::vector<std::vector<double>> read_samples(const Json& answer, size_t series) {
  const Json* samples = answer_member(answer, "samples");
  if (samples == nullptr || !samples->is_array() || samples->empty())
    throw Error(ErrorKind::environment, "answered without samples");
  std::vector<std::vector<double>> all;
  for (const Json& sample : *samples) {
    bool good = sample.is_array() && sample.size() == series;
    std::vector<double> times;
    for (size_t i = 0; good && i < series; ++i) {
      good = is_answered_time(sample[i]);
      if (good) times.push_back(sample[i].get<double>());
    }
    if (!good)
      throw Error(ErrorKind::environment,
                  "answered with a sample that is no time: " + printable(sample.dump(), 80));
    all.push_back(std::move(times));
  }
  return all;
}

}  // namespace ridgeline
