// A child process that runs attention for us and answers in JSON lines: a peer's library, or a
// kernel of the user's. docs/peers.md has the protocol.
#pragma once

#include <functional>
#include <map>
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
  std::map<std::string, std::string> environment = {};
  double patience_s = 600;  // for one answer; then it is ended
  std::function<bool()> interrupted = {};
};

class Worker {
 public:
  explicit Worker(WorkerOptions options);

  // Sends one request and waits for the answer; empty when interrupted, after which the worker is
  // gone. What the worker refuses is thrown: out_of_memory, unsupported, wrong_result, or
  // environment for a row that could not be measured. So is its end, and silence beyond patience.
  std::optional<Json> ask(const Json& request) { return ask(request, options_.patience_s); }
  std::optional<Json> ask(const Json& request, double patience_s);
  // What `read` makes of an answer; an answer that it refuses is thrown with the worker's name, and
  // ends the worker.
  template <class Read>
  auto understood(const Read& read) {
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

// The status of a row that ended in an error of a worker, and its reason with the next step.
void fail_worker_row(Record& record, const Error& error, const std::string& label = {});

}  // namespace ridgeline
