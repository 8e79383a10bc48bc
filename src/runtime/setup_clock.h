// The time a device has spent on one-time work: compiling and loading kernels, choosing algorithms,
// recording launch graphs.
#pragma once

#include "base/clock.h"

namespace ridgeline {

class SetupClock {
 public:
  // Counts time until it goes out of scope; nested scopes are not counted twice.
  class Scope {
   public:
    explicit Scope(SetupClock& clock) : clock_(clock) {
      if (clock_.depth_++ == 0) clock_.begin_s_ = monotonic_s();
    }
    ~Scope() {
      if (--clock_.depth_ == 0) clock_.seconds_ += monotonic_s() - clock_.begin_s_;
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    SetupClock& clock_;
  };

  double seconds() const { return seconds_; }

 private:
  int depth_ = 0;
  double begin_s_ = 0, seconds_ = 0;
};

}  // namespace ridgeline
