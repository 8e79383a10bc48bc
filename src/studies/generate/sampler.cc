#include "studies/generate/sampler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"

namespace ridgeline {
namespace {

// The `count` ids of the largest logits, the largest first.
std::vector<int32_t> largest(std::span<const float> logits, size_t count) {
  std::vector<int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  const auto before = [&](int32_t a, int32_t b) {
    const float of_a = logits[static_cast<size_t>(a)], of_b = logits[static_cast<size_t>(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  };
  std::partial_sort(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(count), ids.end(), before);
  ids.resize(count);
  return ids;
}

}  // namespace

void check(const SamplingRules& rules) {
  if (!(rules.temperature >= 0) || !std::isfinite(rules.temperature))
    throw Error(ErrorKind::usage,
                fmt::format("--temperature is {}, expected 0 or more", rules.temperature));
  if (rules.top_k < 0)
    throw Error(ErrorKind::usage, fmt::format("--top-k is {}, expected 0 or more", rules.top_k));
  if (!(rules.top_p > 0 && rules.top_p <= 1))
    throw Error(ErrorKind::usage,
                fmt::format("--top-p is {}, expected above 0 and at most 1", rules.top_p));
  if (rules.is_greedy() && (rules.top_k > 0 || rules.top_p < 1))
    throw Error(ErrorKind::usage,
                fmt::format("{} chooses among tokens, but at temperature 0 the likeliest one is "
                            "always taken",
                            rules.top_k > 0 ? "--top-k" : "--top-p"),
                "give a --temperature, such as 1");
}

void check_logits(std::span<const float> logits) {
  bool has_finite = false;
  for (size_t id = 0; id < logits.size(); ++id) {
    if (std::isnan(logits[id]) || logits[id] == std::numeric_limits<float>::infinity())
      throw Error(ErrorKind::wrong_result,
                  fmt::format("the logit of token {} is {}, expected a number", id, logits[id]),
                  "look at the weights, or run the model with --dtype fp32");
    has_finite = has_finite || std::isfinite(logits[id]);
  }
  if (!has_finite)
    throw Error(ErrorKind::wrong_result,
                fmt::format("all of {} logits are -infinity: no token can follow", logits.size()));
}

std::vector<Candidate> candidates(std::span<const float> logits, const SamplingRules& rules) {
  check_logits(logits);
  const size_t most = rules.is_greedy() ? 1
                      : rules.top_k == 0
                          ? logits.size()
                          : std::min(static_cast<size_t>(rules.top_k), logits.size());
  const std::vector<int32_t> ids = largest(logits, most);
  const double top = logits[static_cast<size_t>(ids[0])];
  std::vector<Candidate> kept;
  double sum = 0;
  for (const int32_t id : ids) {
    // Subtract first: dividing large logits by a small temperature could overflow.
    const double weight =
        kept.empty() ? 1 : std::exp((logits[static_cast<size_t>(id)] - top) / rules.temperature);
    if (weight == 0) break;  // the rest is no likelier
    kept.push_back({id, weight});
    sum += weight;
  }
  double of_kept = 0;
  size_t count = 0;
  while (count < kept.size() && (count == 0 || of_kept < rules.top_p * sum))
    of_kept += kept[count++].probability;
  kept.resize(count);
  for (Candidate& candidate : kept) candidate.probability /= of_kept;
  return kept;
}

int32_t TokenSampler::next(std::span<const float> logits) {
  const std::vector<Candidate> kept = candidates(logits, rules_);
  double left = random_.uniform();
  for (const Candidate& candidate : kept) {
    left -= candidate.probability;
    if (left < 0) return candidate.id;
  }
  return kept.back().id;  // the sum rounded below 1
}

}  // namespace ridgeline
