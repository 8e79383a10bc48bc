#include "studies/ddp/workload.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/machine_limits.h"
#include "studies/ranks/group.h"

namespace ridgeline {
namespace {

constexpr int64_t kMostDdpRanks = 256;

// Model sizes by their JSON keys.
struct SizeKey {
  const char* key;
  int64_t TransformerConfig::*size;
};
constexpr SizeKey kSizeKeys[] = {
    {"d_model", &TransformerConfig::d_model},
    {"d_ff", &TransformerConfig::d_ff},
    {"layers", &TransformerConfig::layers},
    {"heads", &TransformerConfig::heads},
    {"vocabulary", &TransformerConfig::vocabulary},
    {"batch_size", &TransformerConfig::batch_size},
    {"context_length", &TransformerConfig::context_length},
};

}  // namespace

std::string label(const DdpWorkload& workload) {
  const Distribution& how = workload.distribution;
  const std::string bucket = how.strategy == ParallelStrategy::bucketed
                                 ? fmt::format(" {} MB", how.bucket.count / kBucketUnit)
                                 : std::string();
  return fmt::format("{}{} {}, {} ranks by {}", info(how.strategy).name, bucket,
                     label(workload.model), how.ranks, workload.backend);
}

Json to_json(const DdpWorkload& workload) {
  Json json = {{"model", workload.model.config.name},
               {"precision", info(workload.model.precision).name},
               {"mode", info(workload.model.mode).name},
               {"micro_batches", workload.model.micro_batches},
               {"strategy", info(workload.distribution.strategy).name},
               {"bucket_bytes", workload.distribution.bucket.count},
               {"ranks", workload.distribution.ranks},
               {"backend", workload.backend},
               {"threads", workload.threads}};
  for (const SizeKey& each : kSizeKeys) json[each.key] = workload.model.config.*each.size;
  return json;
}

DdpWorkload ddp_workload(const Json& json) {
  DdpWorkload workload;
  workload.model.config.name = json["model"].text();
  for (const SizeKey& each : kSizeKeys)
    workload.model.config.*each.size = json[each.key].get<int64_t>();
  workload.model.precision = kModelPrecisions.find(json["precision"].text()).precision;
  workload.model.mode = parse_mode(json["mode"].text());
  workload.model.micro_batches = json["micro_batches"].get<int64_t>();
  workload.distribution = {.strategy = parse_parallel_strategy(json["strategy"].text()),
                           .ranks = json["ranks"].get<int>(),
                           .bucket = Bytes{json["bucket_bytes"].get<int64_t>()}};
  workload.backend = json["backend"].text();
  workload.threads = json["threads"].get<int>();
  return workload;
}

std::vector<DdpWorkload> expand_matrix(const DdpMatrix& matrix) {
  std::vector<DdpWorkload> workloads;
  for (const std::string& backend : matrix.backends) {
    kRankBackends.find(backend);
    for (const int64_t ranks : matrix.ranks) {
      if (ranks < 1 || ranks > kMostDdpRanks)
        throw Error(ErrorKind::usage, fmt::format("{} ranks were asked for", ranks),
                    fmt::format("give 1 to {}", kMostDdpRanks));
      const auto all = static_cast<int>(ranks);
      const int here = matrix.ranks_of_host > 0 ? std::min(matrix.ranks_of_host, all) : all;
      const int shared_out = std::max(1, available_threads() / here);
      for (const ModelWorkload& model : matrix.models)
        for (const std::string& name : matrix.strategies) {
          const ParallelStrategy strategy = parse_parallel_strategy(name);
          DdpWorkload workload{
              .model = model,
              .distribution = {.strategy = strategy, .ranks = static_cast<int>(ranks)},
              .backend = backend,
              .threads = matrix.threads > 0 ? matrix.threads : shared_out};
          if (strategy != ParallelStrategy::bucketed || matrix.bucket_mb.empty()) {
            workloads.push_back(workload);
            continue;
          }
          for (const int64_t megabytes : matrix.bucket_mb) {
            workload.distribution.bucket = Bytes{megabytes * kBucketUnit};
            workloads.push_back(workload);
          }
        }
    }
  }
  return workloads;
}

}  // namespace ridgeline
