// Which steps of a run are profiled: `wait=1,warmup=3,active=6`.
#pragma once

#include <string>
#include <string_view>

namespace ridgeline {

struct ProfileSchedule {
  int wait = 1;    // steps at the beginning that are ignored
  int warmup = 3;  // steps with tracing whose records are dropped
  int active = 6;  // steps that are kept

  int steps() const { return wait + warmup + active; }
  bool operator==(const ProfileSchedule&) const = default;
};

// Parts may be in any order; a missing one keeps its default. Throws a usage error that names what
// it got.
ProfileSchedule parse_profile_schedule(std::string_view text);
std::string to_string(const ProfileSchedule& schedule);  // "wait=1,warmup=3,active=6"

}  // namespace ridgeline
