// Generates texts with a Gemma-3 model on a device, one or a batch of the same length: prefills the
// prompts, then decodes token by token.
//
//   Generator generator(config, device, {.prompt = 128, .capacity = 256});  // nothing is allocated
//   generator.prepare();
//   generator.load(nullptr, seed);
//   generator.set_prompt(ids);
//   generator.prefill();
//   generator.begin_decoding(generator.first_tokens(), 1);
//   const std::vector<int32_t> more = generator.greedy_steps(8);
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "compile/executable.h"
#include "models/gemma3_cache.h"
#include "models/weight_files.h"
#include "studies/generate/sampler.h"
#include "studies/host_tensors.h"

namespace ridgeline {

struct GeneratorOptions {
  int64_t batch_size = 1;  // texts
  int64_t prompt = 1;      // tokens of each
  int64_t capacity = 64;
  DType dtype = DType::bf16;
  Mode mode = Mode::compiled;
  SamplingRules rules = {};
  uint64_t seed = 42;                                    // of sampled tokens
  std::function<void(std::string_view)> stage = {};      // called with what begins
  std::function<void(const std::string&)> message = {};  // called with fallbacks
};

// The bytes that a step must read: every weight, and the cache of `cached_tokens` of each text.
Bytes bytes_per_step(const Gemma3Config& config, const GeneratorOptions& options,
                     int64_t cached_tokens);
double macs_per_step(const Gemma3Config& config, const GeneratorOptions& options);

class Generator {
 public:
  // Traces and plans both graphs.
  Generator(const Gemma3Config& config, Device& device, GeneratorOptions options);

  // The peak of weights, caches and what both graphs need besides.
  Bytes predicted_peak() const;
  Bytes cache_bytes() const;
  const Executable& steps() const { return decode_; }
  double compile_seconds() const { return prefill_.compile_seconds() + decode_.compile_seconds(); }

  // Compiles kernels, and allocates weights and caches, which both graphs share.
  void prepare();
  // Loads weights from the files; null: draws them by the seed.
  void load(const WeightFiles* files, uint64_t seed);

  // Sets the ids of all prompts, one text after the other, and the position to 0.
  void set_prompt(std::span<const int32_t> ids);
  void prefill();  // processes the prompts
  // Waits for prefill() and returns the token that follows the prompt of each text.
  std::vector<int32_t> first_tokens();
  // Releases the memory of prefill, and runs `warmups` steps without effect on the texts.
  void begin_decoding(const std::vector<int32_t>& first, int warmups);

  // Runs steps without the host in between; returns the new tokens of the first text.
  std::vector<int32_t> greedy_steps(int64_t steps);
  // The greedy tokens of every text so far.
  std::vector<std::vector<int32_t>> greedy_texts();
  // Runs a step and samples one token of each text on the host.
  std::vector<int32_t> sampled_step();

 private:
  std::vector<float> logits(const Executable& executable) const;
  // Calls `use` with the logits of each text.
  void for_each_text(const Executable& executable,
                     const std::function<void(std::span<const float>)>& use) const;
  std::vector<int32_t> drawn_from(const Executable& executable);
  void set_position(int64_t position);
  void set_tokens(const std::vector<int32_t>& ids);
  void fill_tables(const RangeRunner& in_parallel);

  Gemma3Config config_;
  Device& device_;
  GeneratorOptions options_;
  std::map<std::string, Allocation> shared_;  // inputs of both graphs, by name
  Executable prefill_, decode_;
  TokenSampler sampler_;
  int64_t position_ = 0;  // of the next step's input token
};

}  // namespace ridgeline
