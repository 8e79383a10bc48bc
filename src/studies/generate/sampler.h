// Samples the next token from logits: temperature, then top-k, then top-p.
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
  double temperature = 0;  // divides the logits; 0: greedy
  int64_t top_k = 0;       // the number of candidates; 0: all
  double top_p = 1;        // the fewest candidates with this total probability

  bool is_greedy() const { return temperature == 0; }
};

// Throws a usage error for a temperature below 0, a k below 0, a p outside of (0, 1], and for a k
// or a p that greedy rules would ignore.
void check(const SamplingRules& rules);

struct Candidate {
  int32_t id = 0;
  double probability = 0;  // among the candidates
};

// Throws wrong_result for logits of one text that are NaN or +infinity, or if all are -infinity.
void check_logits(std::span<const float> logits);

// The tokens that may be drawn, at least one, the likeliest first; ties by id. Checks the logits.
std::vector<Candidate> candidates(std::span<const float> logits, const SamplingRules& rules);

// The same seed draws the same tokens.
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
