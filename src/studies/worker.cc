#include "studies/worker.h"

#include <fmt/format.h>

#include <string_view>

#include "base/printable.h"

namespace ridgeline {
namespace {

struct Refused {
  std::string_view word;  // in answers
  ErrorKind kind;
  Status status;
};
constexpr Refused kRefusals[] = {
    {"oom", ErrorKind::out_of_memory, Status::oom},
    {"unsupported", ErrorKind::unsupported, Status::unsupported},
    {"wrong", ErrorKind::wrong_result, Status::wrong},
    {"invalid", ErrorKind::environment, Status::invalid},
};

constexpr size_t kLongestReason = 4000;  // a compiler's log is long, a record's line bounded

// The last line of an error stream, which is where Python says what happened.
std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t newline = text.rfind('\n');
  return printable(newline == text.npos ? text : text.substr(newline + 1), 300);
}

std::string text_of(const Json& answer, const char* key) {
  const auto found = answer.find(key);
  return found != answer.end() && found->is_string() ? found->get<std::string>() : std::string();
}

}  // namespace

Worker::Worker(WorkerOptions options)
    : options_(std::move(options)), process_(options_.words, options_.environment) {}

void Worker::lost(const std::string& how) {
  usable_ = false;
  const std::string said = last_line(process_.last_errors());
  throw Error(ErrorKind::environment,
              fmt::format("{} {}{}", options_.name, how, said.empty() ? "" : ": " + said));
}

std::optional<Json> Worker::ask(const Json& request, double patience_s) {
  process_.write_line(request.dump());  // that it has ended shows when there is no answer
  const ChildProcess::Reply reply =
      process_.read_line({.seconds = patience_s, .interrupted = options_.interrupted});
  switch (reply.outcome) {
    case ChildProcess::Outcome::line:
      break;
    case ChildProcess::Outcome::interrupted:
      usable_ = false;
      process_.end(0);
      return std::nullopt;
    case ChildProcess::Outcome::too_slow:
      process_.end(0);
      lost(fmt::format("hangs: no answer within {:g} s; it was ended", patience_s));
    case ChildProcess::Outcome::ended: {
      constexpr double kToEnd = 5;
      const std::string ending = process_.end(kToEnd);
      lost(fmt::format("ended with {} before it answered", ending));
    }
  }
  const Json answer = Json::try_parse(reply.line).value_or(nullptr);
  if (!answer.is_object())
    lost("answered with something that is no JSON object: " + printable(reply.line, 80));
  if (answer.value("leave", false)) usable_ = false;
  const std::string failed = text_of(answer, "failed");
  if (failed.empty()) return answer;
  for (const Refused& refused : kRefusals)
    if (refused.word == failed)
      throw Error(refused.kind, text_of(answer, "error").substr(0, kLongestReason),
                  text_of(answer, "next_step"));
  lost("refused in a word that is not known: " + printable(failed, 80));
}

Status worker_status(const Error& error) {
  for (const Refused& refused : kRefusals)
    if (refused.kind == error.kind()) return refused.status;
  throw error;  // ours, not the worker's
}

std::string worker_reason(const Error& error) {
  return error.next_step().empty() ? error.message()
                                   : error.message() + "; next step: " + error.next_step();
}

}  // namespace ridgeline
