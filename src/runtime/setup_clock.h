// How long a device has worked on what happens once: compiling and loading kernels, choosing
// algorithms, recording launch graphs.
#pragma once

#include "base/clock.h"

namespace ridgeline {

class SetupClock {
 public:
  // Counts until it goes out of scope; within another one it counts nothing of its own.
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
