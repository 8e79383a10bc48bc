// What the study of training on several ranks measures: a model, a strategy, and who communicates.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "passes/distribute.h"
#include "studies/model/workload.h"

namespace ridgeline {

struct DdpWorkload {
  ModelWorkload model;  // its batch is that of one rank
  Distribution distribution;
  std::string backend = "threads";
  int threads = 1;  // that compute, of each rank; another one communicates
};

// "bucketed 25.0 MB small context=128 batch=4 fp32, compiled, 4 ranks by threads".
std::string label(const DdpWorkload& workload);

// As a request carries it.
Json to_json(const DdpWorkload& workload);
DdpWorkload ddp_workload(const Json& json);  // throws a usage error

struct DdpMatrix {
  std::vector<ModelWorkload> models;
  std::vector<std::string> backends, strategies;
  std::vector<int64_t> ranks, bucket_mb;
  int threads = 0;        // of each rank; 0: the available ones, shared out
  int ranks_of_host = 0;  // among which they are; 0: all are on this host
};
// In the order of backends and ranks first, so that one group of ranks serves many rows. Buckets
// are an axis of `bucketed` alone.
std::vector<DdpWorkload> expand_matrix(const DdpMatrix& matrix);

}  // namespace ridgeline
