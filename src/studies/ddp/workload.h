// A workload of the ddp study: a model, a strategy, ranks and a backend.
#pragma once

#include <string>
#include <vector>

#include "base/json.h"
#include "passes/distribute.h"
#include "studies/model/workload.h"

namespace ridgeline {

inline constexpr int64_t kBucketUnit = 1'000'000;  // bytes, of --bucket-mb

struct DdpWorkload {
  ModelWorkload model;  // its batch size is per rank
  Distribution distribution;
  std::string backend = "threads";
  int threads = 1;  // of each rank, that compute; one more communicates
};

// "bucketed 25.0 MB small context=128 batch=4 fp32, compiled, 4 ranks by threads".
std::string label(const DdpWorkload& workload);

// The form in which requests hold it.
Json to_json(const DdpWorkload& workload);
DdpWorkload ddp_workload(const Json& json);  // throws a usage error

struct DdpMatrix {
  std::vector<ModelWorkload> models;
  std::vector<std::string> backends, strategies;
  std::vector<int64_t> ranks, bucket_mb;
  int threads = 0;        // of each rank; 0: an equal share of the available ones
  int ranks_of_host = 0;  // that share them; 0: all ranks are on this host
};
// Backends and ranks vary slowest, so that one group of ranks serves many rows. Only `bucketed`
// rows vary the bucket size.
std::vector<DdpWorkload> expand_matrix(const DdpMatrix& matrix);

}  // namespace ridgeline
