// NVTX ranges for an external profiler: the phase and the scopes of every kernel, around the call
// that launches it.
//
//   NVTX_INJECTION64_PATH=libmine.so ridgeline model ...    # profilers set it themselves
//
// Without a profiler there is no observer, and nothing is done.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/kernel_observer.h"

namespace ridgeline {

class NvtxScopes : public KernelObserver {
 public:
  // Null: no profiler is attached; or its library cannot be used, and `why_not` says why.
  static std::unique_ptr<NvtxScopes> open(std::string& why_not);
  ~NvtxScopes() override;

  // Another observer to forward to; null: none.
  void set_next(KernelObserver* next) { next_ = next; }
  void close();  // closes open ranges at the end of a run

  void before(const KernelRun& run) override;
  void after(const KernelRun& run) override;
  bool takes_recordings() const override { return !next_ || next_->takes_recordings(); }
  void begin_recording() override;
  void end_recording() override;
  void before_start() override;
  void after_start() override;

 private:
  NvtxScopes() = default;
  void enter(std::vector<std::string> parts);

  std::vector<std::string> open_;  // outermost first
  KernelObserver* next_ = nullptr;
  bool is_recording_ = false;
};

}  // namespace ridgeline
