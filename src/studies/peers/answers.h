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

// Of "sample": one list of times in milliseconds per sample, each as long as there are series.
std::vector<std::vector<double>> read_samples(const Json& answer, size_t series);

// A refusal's word in answers, its error and the status of its row.
struct WorkerRefusal {
  std::string_view word;
  ErrorKind kind;
  Status status;
};
std::span<const WorkerRefusal> worker_refusals();

}  // namespace ridgeline
