// Which steps of a run are profiled: `wait=1,warmup=3,active=6`.
#pragma once

#include <string>
#include <string_view>

namespace ridgeline {

struct ProfileSchedule {
  int wait = 1;    // steps that run first and are not looked at
  int warmup = 3;  // steps with tracing on whose records are dropped
  int active = 6;  // steps that are kept

  int steps() const { return wait + warmup + active; }
  bool operator==(const ProfileSchedule&) const = default;
};

// Parts may be left out, which keeps their usual values, and come in any order. Throws a usage
// error that names what it got.
ProfileSchedule parse_profile_schedule(std::string_view text);
std::string to_string(const ProfileSchedule& schedule);  // "wait=1,warmup=3,active=6"

}  // namespace ridgeline
