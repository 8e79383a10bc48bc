#include "base/error.h"

namespace ridgeline {
namespace {

std::string with_next_step(const std::string& message, const std::string& next_step) {
  return next_step.empty() ? message : message + "\n  next step: " + next_step;
}

}  // namespace

Error::Error(ErrorKind kind, std::string message, std::string next_step)
    : std::runtime_error(with_next_step(message, next_step)),
      kind_(kind),
      message_(std::move(message)),
      next_step_(std::move(next_step)) {}

Error Error::at(const std::string& place) const {
  return Error(kind_, place + ": " + message_, next_step_);
}

int exit_code(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::usage:
      return 2;
    case ErrorKind::wrong_result:
      return 3;
    case ErrorKind::out_of_memory:
    case ErrorKind::unsupported:
    case ErrorKind::environment:
    case ErrorKind::internal:
      return 4;
  }
  return 4;
}

}  // namespace ridgeline
