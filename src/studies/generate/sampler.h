// The next token from logits: temperature, then the k likeliest, then the likeliest that make up p.
//
//   TokenSampler sampler({.temperature = 0.8, .top_k = 64, .top_p = 0.95}, seed);
//   const int32_t id = sampler.next(logits);
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/random.h"

namespace ridgeline {

struct SamplingRules {
  double temperature = 0;  // logits are divided by it; 0: the largest logit is taken
  int64_t top_k = 0;       // tokens that may be drawn; 0: all
  double top_p = 1;        // of the likeliest tokens, as few as have this probability together

  bool is_greedy() const { return temperature == 0; }
};

// Throws a usage error for a temperature below 0, a k below 0, a p outside of (0, 1], and for a k
// or a p that greedy rules would ignore.
void check(const SamplingRules& rules);

struct Candidate {
  int32_t id = 0;
  double probability = 0;  // among the candidates
};

// What may be drawn, the likeliest first, of equal ones the lower id first. At least one. Throws
// wrong_result for logits that are NaN or +infinity, and where all are -infinity.
std::vector<Candidate> candidates(std::span<const float> logits, const SamplingRules& rules);

// Draws are decided by the seed: the same one, the same tokens.
class TokenSampler {
 public:
  TokenSampler(const SamplingRules& rules, uint64_t seed)
      : rules_(rules), random_(seed, "tokens") {}

  int32_t next(std::span<const float> logits);

 private:
  SamplingRules rules_;
  NormalRandom random_;
};

}  // namespace ridgeline
