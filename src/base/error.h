// The one exception type: what failed, where, why, and what to do next.
#pragma once

#include <stdexcept>
#include <string>

namespace ridgeline {

enum class ErrorKind {
  usage,          // bad flags, shapes or files given by the user
  out_of_memory,  // an expected result of a row, which does not end a sweep
  unsupported,    // a valid request that this build or device cannot serve
  wrong_result,   // a kernel disagreed with the oracle
  environment,    // the device, the disk or the operating system failed
  internal,       // a broken invariant: a bug in Ridgeline
};

// The message names the actual value and the expected one; what() appends the next step, if any.
class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, std::string message, std::string next_step = {});

  ErrorKind kind() const { return kind_; }
  const std::string& message() const { return message_; }
  const std::string& next_step() const { return next_step_; }

  // Returns the error with a place in front of the message: "row 3: <message>".
  Error at(const std::string& place) const;

 private:
  ErrorKind kind_;
  std::string message_;
  std::string next_step_;
};

// Thrown by a wait that Ctrl-C or a batch system's termination signal interrupts. It is not an
// Error, so that no row records it as its result.
struct Interrupted {};

// 0 ok, 1 a gate failed, 2 bad usage or input, 3 a result was wrong, 4 the environment failed.
int exit_code(ErrorKind kind);

}  // namespace ridgeline
