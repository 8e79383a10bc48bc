#include "runtime/cuda/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <limits>

#include "base/error.h"
#include "base/sha256.h"
#include "kernels/cuda/embedded.h"

namespace ridgeline {
namespace {

constexpr size_t kQuickCandidates = 4;
constexpr int kRepetitions = 5;

// Of the texts that all candidates are made from: a choice among older kernels is worth nothing.
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

size_t CudaTuner::choose(const std::string& key, size_t count,
                         const std::function<std::vector<CudaLaunch>(size_t)>& candidate) {
  if (count < 2) return 0;
  auto found = choices_.find(key);
  if (found == choices_.end()) found = choices_.emplace(key, remembered(key, count)).first;
  Choice& choice = found->second;
  // A full search is not content with what a quick one found.
  if (choice.found_by >= options_.tuning) return std::min(choice.index, count - 1);
  queue_.require_no_capture("tuning");
  choice = tune(count, candidate);
  cache_.write(file_key(key), {.code = fmt::format("{} {} {}", choice.index, count,
                                                   static_cast<int>(choice.found_by)),
                               .log = key});
  return choice.index;
}

CudaTuner::Choice CudaTuner::remembered(const std::string& key, size_t count) const {
  const std::optional<CacheEntry> entry = cache_.read(file_key(key));
  if (!entry) return {};
  size_t index = 0, of = 0;
  int found_by = 0;
  const char* end = entry->code.data() + entry->code.size();
  auto read = std::from_chars(entry->code.data(), end, index);
  if (read.ec == std::errc() && read.ptr != end) read = std::from_chars(read.ptr + 1, end, of);
  if (read.ec == std::errc() && read.ptr != end)
    read = std::from_chars(read.ptr + 1, end, found_by);
  const bool valid = read.ec == std::errc() && read.ptr == end && of == count && index < count &&
                     found_by > 0 && found_by <= static_cast<int>(Tuning::full);
  return valid ? Choice{index, static_cast<Tuning>(found_by)} : Choice{};
}

CudaTuner::Choice CudaTuner::tune(size_t count,
                                  const std::function<std::vector<CudaLaunch>(size_t)>& candidate) {
  const size_t tried = options_.tuning == Tuning::quick ? std::min(count, kQuickCandidates) : count;
  std::vector<std::vector<CudaLaunch>> ways(tried);
  std::vector<CudaKernel> kernels;
  const auto skip = [&](size_t i, const Error& error) {
    fmt::print(stderr, "ridgeline: tuning leaves out variant {} of {}: {}\n", i, count,
               error.message());
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
  } catch (const Error&) {  // one of them does not compile or load; below it is left out by itself
  }
  Choice choice{0, options_.tuning};
  double best = std::numeric_limits<double>::infinity();
  for (size_t i = 0; i < tried; ++i) {
    if (ways[i].empty()) continue;
    try {
      const double time = time_ms(ways[i]);
      if (time < best) {
        best = time;
        choice.index = i;
      }
    } catch (const Error& error) {
      if (queue_.lost()) throw;
      skip(i, error);
    }
  }
  return choice;
}

double CudaTuner::time_ms(const std::vector<CudaLaunch>& launches) {
  const auto work = [&] {
    for (const CudaLaunch& launch : launches) kernels_.run(launch);
  };
  queue_.time_ms(work);  // loads, and warms caches and clocks
  std::vector<double> times;
  for (int i = 0; i < kRepetitions; ++i) times.push_back(queue_.time_ms(work));
  std::nth_element(times.begin(), times.begin() + kRepetitions / 2, times.end());
  return times[kRepetitions / 2];
}

}  // namespace ridgeline
