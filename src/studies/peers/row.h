// One row that a worker runs: on our inputs, with results that we verify, under our protocol.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "measure/protocol.h"
#include "measure/record.h"
#include "models/attention.h"
#include "runtime/device.h"
#include "studies/peers/tensors.h"
#include "studies/peers/worker.h"
#include "studies/row.h"

namespace ridgeline {

struct WorkerRow {
  AttentionConfig config;
  bool gradients = true;            // also computes backward
  std::vector<std::string> series;  // the times in one sample, in the worker's order
  Json request = Json::object();    // what "open" has beyond the problem
};

// The members of every "open", and those for attention, whose inputs must be provided first.
Json open_request(const Device& device);
Json attention_request(const AttentionConfig& config, const WorkerTensors& tensors);

// Returns the answer to a request. Throws Interrupted, and what Worker::ask throws.
Json ask_worker(Worker& worker, const Json& request);

// Requests samples in batches, so that the worker does not wait for us between them.
class WorkerSamples {
 public:
  WorkerSamples(Worker& worker, size_t series, const Protocol& protocol);
  void next(std::span<double> out);

 private:
  void fetch();

  Worker& worker_;
  size_t series_;
  int left_;  // samples that the protocol may still request
  int count_ = 1;
  std::vector<std::vector<double>> batch_;
  size_t at_ = 0;
};

// Fills in the results of `record`; nullopt if interrupted. Refusals and the end of the worker
// become statuses.
std::optional<Record> run_worker_row(Worker& worker, WorkerTensors& tensors, Device& device,
                                     const WorkerRow& row, const RowOptions& options,
                                     Record record);

}  // namespace ridgeline
