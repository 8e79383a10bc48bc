// The memory of a Gemma-3 model that generates text: weights, keys and values of a context, working
// memory, and the longest context that fits. Nothing is allocated.
//
//   const CacheAccount account = account_cache({.config = config, .context = 32768}, device);
#pragma once

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
  std::string config_word = "270m";  // as given: a size or a file
  int64_t batch_size = 1;
  int64_t context = 1024;  // tokens that the caches can hold
  int64_t prompt = 128;    // tokens that one prefill takes in, at most `context`
  DType dtype = DType::bf16;
  Mode mode = Mode::compiled;
};

struct CacheAccount {
  CacheWorkload workload;
  Bytes weights, cache;
  Bytes working;  // everything else at the peak: activations, tables
  Bytes peak;
  Gemma3TokenBytes per_token;
};

// Predicts the memory of `ridgeline generate` on this device.
CacheAccount account_cache(const CacheWorkload& workload, Device& device);
// Returns the longest context, up to the model's positions, whose peak fits the budget, or 0.
int64_t longest_context(const CacheWorkload& workload, Device& device, Bytes budget);

struct CacheAxes {
  Words configs = {};
  std::vector<int64_t> contexts = {};  // empty: 4096 tokens, and all positions of the model
  int64_t batch_size = 1;
  int64_t prompt = 128;
  std::string dtype = "bf16";
  Words modes = {"compiled"};
};
// Throws a usage error for a context beyond the positions of a model, or a dtype other than bf16
// and fp32.
std::vector<CacheWorkload> expand_caches(const CacheAxes& axes);

// Prints and writes the accounts of `ridgeline memory --model-config`.
void account_caches(StudyRun& run, const std::vector<CacheWorkload>& workloads,
                    const SharedFlags& shared);

}  // namespace ridgeline
