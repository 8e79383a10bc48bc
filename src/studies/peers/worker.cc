#include "studies/peers/worker.h"

#include <fmt/format.h>

#include "base/printable.h"
#include "base/units.h"
#include "measure/read_results.h"

namespace ridgeline {
namespace {

// The last line of stderr, where Python names the exception.
std::string last_line(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t newline = text.rfind('\n');
  return printable(newline == text.npos ? text : text.substr(newline + 1), 300);
}

Status worker_status(const Error& error) {
  for (const WorkerRefusal& refusal : worker_refusals())
    if (refusal.kind == error.kind()) return refusal.status;
  if (error.kind() == ErrorKind::usage) return Status::invalid;  // it corrupted its files
  throw error;                                                   // an error of this program
}

std::string worker_reason(const Error& error) {
  return error.next_step().empty() ? error.message()
                                   : error.message() + "; next step: " + error.next_step();
}

}  // namespace

Worker::Worker(WorkerOptions options) : options_(std::move(options)), process_(options_.words) {}

void Worker::lost(const std::string& how) {
  usable_ = false;
  const std::string said = last_line(process_.last_errors());
  throw Error(ErrorKind::environment,
              fmt::format("{} {}{}", options_.name, how, said.empty() ? "" : ": " + said));
}

std::optional<Json> Worker::ask(const Json& request, double time_limit_s) {
  process_.write_line(request.dump());  // if it has ended, the missing answer shows that
  const ChildProcess::Reply reply = process_.read_line(
      {.seconds = time_limit_s, .interrupted = options_.interrupted, .most_bytes = kMaxLineBytes});
  switch (reply.outcome) {
    case ChildProcess::Outcome::line:
      break;
    case ChildProcess::Outcome::interrupted:
      usable_ = false;
      process_.end(0);
      return std::nullopt;
    case ChildProcess::Outcome::too_slow:
      process_.end(0);
      lost(fmt::format("hangs: no answer within {:g} s; it was ended", time_limit_s));
    case ChildProcess::Outcome::ended: {
      constexpr double kToEnd = 5;
      const std::string ending = process_.end(kToEnd);
      lost(fmt::format("ended with {} before it answered", ending));
    }
    case ChildProcess::Outcome::too_long:
      process_.end(0);
      lost(fmt::format("answered with a line longer than {}", to_string(Bytes{kMaxLineBytes})));
  }
  WorkerAnswer answer = parse_or_end([&] { return parse_answer(reply.line); });
  usable_ = !answer.leave;
  if (answer.refusal) throw *answer.refusal;
  return std::move(answer.values);
}

void fail_worker_row(Record& record, const Error& error, const std::string&) {
  record.status = worker_status(error);
  record.error = worker_reason(error);
  record.series.clear();  // the row may have failed after its samples
}

}  // namespace ridgeline
