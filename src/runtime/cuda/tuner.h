// Picks the fastest of several ways to do the same work by timing them, and caches the choice: in
// the process, and on disk per device, driver and text of the kernels.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/disk_cache.h"
#include "kernels/cuda/launch.h"
#include "runtime/cuda/kernel_store.h"

namespace ridgeline {

enum class Tuning { off, quick, full };

struct TunerOptions {
  Tuning tuning = Tuning::off;
  std::string device;               // name and driver: what a choice depends on besides its key
  std::filesystem::path cache_dir;  // empty: no disk cache
};

class CudaTuner {
 public:
  CudaTuner(CudaQueue& queue, KernelStore& kernels, TunerOptions options);

  // As CudaChooser. Without tuning: the cached choice, else the first.
  size_t choose(const std::string& key, size_t count,
                const std::function<std::vector<CudaLaunch>(size_t)>& candidate);
  // As Device::compare.
  std::optional<std::vector<double>> compare(const std::string& key, size_t ways,
                                             const std::function<double(size_t)>& time_ms);

 private:
  struct Choice {
    size_t index = 0;
    Tuning found_by = Tuning::off;
    std::vector<double> ms = {};  // of all candidates, or none
  };

  // Empty: none could be timed.
  std::optional<size_t> tune(size_t count,
                             const std::function<std::vector<CudaLaunch>(size_t)>& candidate);
  double time_ms(const std::vector<CudaLaunch>& launches);
  std::string file_key(const std::string& key) const;
  Choice& known(const std::string& key, size_t count);
  Choice remembered(const std::string& key, size_t count) const;
  void remember(const std::string& key, size_t count, const Choice& choice);

  CudaQueue& queue_;
  KernelStore& kernels_;
  TunerOptions options_;
  DiskCache cache_;
  std::string setting_;  // what all choices depend on besides their keys
  std::unordered_map<std::string, Choice> choices_;
};

}  // namespace ridgeline
