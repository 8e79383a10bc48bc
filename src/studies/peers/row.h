// One row that a worker runs: inputs from us, results checked by us, samples by our protocol.
#pragma once

#include <functional>
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

namespace ridgeline {

struct WorkerRow {
  AttentionConfig config;
  bool gradients = true;            // backward too
  std::vector<std::string> series;  // what one sample has, in the worker's order
  Json request = Json::object();    // of "open": what the worker needs beyond the problem
  const char* facts_key = "peer";   // where in the record's metrics its own account goes
};

struct WorkerRowOptions {
  Protocol protocol;
  uint64_t seed = 42;
  bool verify = true;
  std::function<bool()> interrupted = {};
};

// What every "open" has, and what one of attention has besides, once its inputs are provided.
Json open_request(const Device& device);
Json attention_request(const AttentionConfig& config, const WorkerTensors& tensors);

// The answer to a request; throws Interrupted beside what Worker::ask throws.
Json ask_worker(Worker& worker, const Json& request);

// Samples come in batches, so that the worker runs one after the other without waiting for us.
class WorkerSamples {
 public:
  WorkerSamples(Worker& worker, size_t series, const Protocol& protocol);
  void next(std::span<double> out);

 private:
  void fetch();

  Worker& worker_;
  size_t series_;
  int left_;  // that the protocol can still ask for
  int count_ = 1;
  std::vector<std::vector<double>> batch_;
  size_t at_ = 0;
};

// Fills in the results of `record`. Whatever the worker refuses, and its end, are statuses. Empty
// when interrupted.
std::optional<Record> run_worker_row(Worker& worker, WorkerTensors& tensors, Device& device,
                                     const WorkerRow& row, const WorkerRowOptions& options,
                                     Record record);

}  // namespace ridgeline
