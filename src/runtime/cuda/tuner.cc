#include "runtime/cuda/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <sstream>

#include "base/error.h"
#include "base/print.h"
#include "base/sha256.h"
#include "kernels/cuda/embedded.h"

namespace ridgeline {
namespace {

constexpr size_t kQuickCandidates = 4;
constexpr int kTimedCalls = 5;

// Hashes the texts of all kernels, as choices among older kernels are invalid.
std::string hash_of_texts() {
  Sha256 all;
  for (const EmbeddedText& file : cuda_texts()) {
    all.add_field(file.name);
    all.add_field(file.text);
  }
  return to_hex(all.finish());
}

}  // namespace

CudaTuner::CudaTuner(CudaQueue& queue, KernelStore& kernels, TunerOptions options)
    : queue_(queue),
      kernels_(kernels),
      options_(std::move(options)),
      cache_(options_.cache_dir),
      setting_(options_.device + " " + hash_of_texts()) {}

std::string CudaTuner::file_key(const std::string& key) const {
  Sha256 all;
  all.add_field(setting_);
  all.add_field(key);
  return "tuning-" + to_hex(all.finish());
}

CudaTuner::Choice& CudaTuner::known(const std::string& key, size_t count) {
  auto found = choices_.find(key);
  if (found == choices_.end()) found = choices_.emplace(key, remembered(key, count)).first;
  return found->second;
}

size_t CudaTuner::choose(const std::string& key, size_t count,
                         const std::function<std::vector<CudaLaunch>(size_t)>& candidate) {
  if (count < 2) return 0;
  Choice& choice = known(key, count);
  // A full search repeats a choice found by a quick one.
  if (choice.found_by >= options_.tuning) return std::min(choice.index, count - 1);
  queue_.require_no_capture("tuning");
  const SetupClock::Scope setup(queue_.setup());
  const std::optional<size_t> fastest = tune(count, candidate);
  choice = {fastest.value_or(0), options_.tuning};
  if (fastest) remember(key, count, choice);  // otherwise a later run may succeed
  return choice.index;
}

std::optional<std::vector<double>> CudaTuner::compare(
    const std::string& key, size_t ways, const std::function<double(size_t)>& time_ms) {
  Choice& choice = known(key, ways);
  if (choice.ms.size() == ways) return choice.ms;
  if (options_.tuning == Tuning::off) return std::nullopt;
  queue_.require_no_capture("tuning");
  const SetupClock::Scope setup(queue_.setup());
  Choice timed{.index = 0, .found_by = options_.tuning};
  for (size_t i = 0; i < ways; ++i) timed.ms.push_back(time_ms(i));
  const auto least = std::min_element(timed.ms.begin(), timed.ms.end());
  if (!std::isfinite(*least)) return std::nullopt;  // none of them runs
  timed.index = static_cast<size_t>(least - timed.ms.begin());
  choice = std::move(timed);
  remember(key, ways, choice);
  return choice.ms;
}

// Writes "index count found_by" and the times in ms, if any.
void CudaTuner::remember(const std::string& key, size_t count, const Choice& choice) {
  std::string text =
      fmt::format("{} {} {}", choice.index, count, static_cast<int>(choice.found_by));
  for (double ms : choice.ms) text += fmt::format(" {}", ms);
  cache_.write(file_key(key), {.code = std::move(text), .log = key});
}

CudaTuner::Choice CudaTuner::remembered(const std::string& key, size_t count) const {
  const std::optional<CacheEntry> entry = cache_.read(file_key(key));
  if (!entry) return {};
  std::istringstream text(entry->code);
  size_t index = 0, of = 0;
  int found_by = 0;
  const bool valid = text >> index >> of >> found_by && of == count && index < count &&
                     found_by > 0 && found_by <= static_cast<int>(Tuning::full);
  if (!valid) return {};
  Choice choice{index, static_cast<Tuning>(found_by)};
  for (std::string ms; text >> ms;) choice.ms.push_back(std::strtod(ms.c_str(), nullptr));
  return choice;
}

std::optional<size_t> CudaTuner::tune(
    size_t count, const std::function<std::vector<CudaLaunch>(size_t)>& candidate) {
  const size_t tried = options_.tuning == Tuning::quick ? std::min(count, kQuickCandidates) : count;
  std::vector<std::vector<CudaLaunch>> ways(tried);
  std::vector<CudaKernel> kernels;
  const auto skip = [&](size_t i, const Error& error) {
    say("tuning leaves out variant {} of {}: {}", i, count, error.message());
    ways[i].clear();
  };
  for (size_t i = 0; i < tried; ++i) {
    try {
      ways[i] = candidate(i);
      for (const CudaLaunch& launch : ways[i]) kernels.push_back(launch.kernel);
    } catch (const Error& error) {
      skip(i, error);
    }
  }
  try {
    kernels_.load(kernels);
  } catch (const Error&) {  // one of them does not compile or load; it is skipped below
  }
  std::optional<size_t> fastest;
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < tried; ++i) {
    if (ways[i].empty()) continue;
    try {
      const double time = time_ms(ways[i]);
      if (time < best) {
        best = time;
        fastest = i;
      }
    } catch (const Error& error) {
      if (queue_.lost()) throw;
      skip(i, error);
    }
  }
  return fastest;
}

double CudaTuner::time_ms(const std::vector<CudaLaunch>& launches) {
  const auto work = [&] {
    for (const CudaLaunch& launch : launches) kernels_.run(launch);
  };
  queue_.time_ms(work);  // loads the kernels, and warms up caches and clocks
  std::vector<double> times;
  for (int i = 0; i < kTimedCalls; ++i) times.push_back(queue_.time_ms(work));
  std::nth_element(times.begin(), times.begin() + kTimedCalls / 2, times.end());
  return times[kTimedCalls / 2];
}

}  // namespace ridgeline
