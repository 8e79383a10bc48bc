// What a Gemma-3 model takes while it writes: weights, keys and values of a context, and working
// memory; and how long a context fits. Nothing is allocated.
//
//   const CacheAccount account = account_cache({.config = config, .context = 32768}, device);
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/record.h"
#include "models/gemma3_cache.h"
#include "report/terminal/table.h"
#include "studies/generate/generator.h"
#include "studies/shared_flags.h"
#include "studies/study.h"

namespace ridgeline {

struct CacheWorkload {
  Gemma3Config config;
  std::string config_word = "270m";  // as it was given: a size or a file
  int64_t batch_size = 1;
  int64_t context = 1024;  // tokens that the caches have room for
  int64_t prompt = 128;    // of them those that are taken in at once, at most
  DType dtype = DType::bf16;
  Mode mode = Mode::compiled;
};

struct CacheAccount {
  CacheWorkload workload;
  Bytes weights, cache;
  Bytes working;  // activations, tables and the like, at the peak
  Bytes peak;
  Gemma3TokenBytes per_token;
};

// As `ridgeline generate` would run it on this device.
CacheAccount account_cache(const CacheWorkload& workload, Device& device);
// The longest context, up to the model's positions, whose peak is within the budget; 0: none is.
int64_t longest_context(const CacheWorkload& workload, Device& device, Bytes budget);

struct CacheAxes {
  Words configs = {};
  std::vector<int64_t> contexts = {};  // empty: 4096 tokens, and all positions of the model
  int64_t batch_size = 1;
  int64_t prompt = 128;
  std::string dtype = "bf16";
  Words modes = {"compiled"};
};
// Throws a usage error for a context that no model was made for.
std::vector<CacheWorkload> expand_caches(const CacheAxes& axes);

// The accounts of `ridgeline memory --model-config`, on the terminal and in files.
struct CacheAccountOptions {
  OutputFlags output = {};
  bool dry_run = false;  // writes no files
};
void account_caches(StudyRun& run, const std::vector<CacheWorkload>& workloads,
                    const CacheAccountOptions& options);

}  // namespace ridgeline
