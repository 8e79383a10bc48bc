// A child process that computes for us and answers in JSON lines: a peer's library, or the user's
// kernel. docs/peers.md describes the protocol.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/child_process.h"
#include "base/error.h"
#include "measure/record.h"
#include "studies/peers/answers.h"

namespace ridgeline {

struct WorkerOptions {
  std::string name;                // in messages: "the torch worker"
  std::vector<std::string> words;  // its command line
  double time_limit_s = 600;       // limit for one answer; then the process is ended
  std::function<bool()> interrupted = {};
};

class Worker {
 public:
  explicit Worker(WorkerOptions options);

  // Sends one request and returns the answer, or nullopt if interrupted, which ends the worker.
  // Throws the worker's refusals: out_of_memory, unsupported, wrong_result, or environment for a
  // row that could not be measured; also environment if the worker ends or exceeds its limit.
  std::optional<Json> ask(const Json& request) { return ask(request, options_.time_limit_s); }
  std::optional<Json> ask(const Json& request, double time_limit_s);
  // Returns the result of `read`, which parses an answer. If it throws, the worker is unusable and
  // the error names it.
  template <class Read>
  auto parse_or_end(const Read& read) {
    try {
      return read();
    } catch (const Error& error) {
      lost(error.message());
    }
  }
  // False: it has ended, or asked to be ended; a new one is needed.
  bool usable() const { return usable_; }

 private:
  [[noreturn]] void lost(const std::string& how);

  WorkerOptions options_;
  ChildProcess process_;
  bool usable_ = true;
};

// Sets the status of a row that failed with a worker's error, and its reason with the next step.
void fail_worker_row(Record& record, const Error& error, const std::string& label = {});

}  // namespace ridgeline
