// What one run of generate does: the model, its weights, the prompt as ids, and limits. Errors in
// files and flags are found here, before a device is opened.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/gemma3_config.h"
#include "models/weight_files.h"
#include "studies/flags.h"
#include "studies/generate/sampler.h"
#include "text/tokenizer.h"

namespace ridgeline {

// The flags as given by the user.
struct GenerateFlags {
  std::string model;         // a folder
  std::string model_config;  // a name or a file
  bool random_weights = false;
  uint64_t seed = 42;  // of a random prompt
  std::string prompt;
  Words prompt_ids;
  int64_t prompt_length = 0;  // of a random prompt; 0: none
  bool gave_prompt = false, gave_ids = false;
  bool chat = false;
  int64_t max_new_tokens = 64;
  int64_t capacity = 0;  // of the caches; 0: what prompt and new tokens need
  std::vector<int64_t> batch_sizes = {1};
  std::string dtype = "bf16";
  SamplingRules rules = {};
};

struct GenerateJob {
  Gemma3Config config;
  std::string model;        // as shown: "270m", or the name of a folder
  std::string folder = {};  // of weights; empty: random weights
  std::optional<WeightFiles> weights = {};
  std::optional<Tokenizer> tokenizer = {};
  std::vector<int32_t> prompt = {};
  std::vector<int64_t> stops = {};  // ids that end a text
  int64_t max_new_tokens = 0;
  int64_t capacity = 0;
  std::vector<int64_t> batch_sizes = {1};  // texts per batch, all from the same prompt
  DType dtype = DType::bf16;
  SamplingRules rules = {};

  bool stops_at(int32_t id) const;
};

// Throws usage errors that name the flag. `message` gets a line about tensors that are not read.
GenerateJob make_generate_job(const GenerateFlags& flags,
                              const std::function<void(const std::string&)>& message = {});

// The flags of the model and the prompt, ready to paste.
std::string to_command(const GenerateFlags& flags, const GenerateJob& job);

}  // namespace ridgeline
