#include "profile/schedule.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "base/parse_number.h"
#include "base/printable.h"

namespace ridgeline {
namespace {

constexpr int kMostSteps = 1'000'000;

struct Part {
  std::string_view name;
  int ProfileSchedule::*steps;
};
constexpr std::array kParts = {Part{"wait", &ProfileSchedule::wait},
                               Part{"warmup", &ProfileSchedule::warmup},
                               Part{"active", &ProfileSchedule::active}};

[[noreturn]] void refuse(std::string_view text, const std::string& why) {
  throw Error(ErrorKind::usage, fmt::format("the schedule '{}' {}", printable(text), why),
              "write it as wait=1,warmup=3,active=6");
}

}  // namespace

ProfileSchedule parse_profile_schedule(std::string_view text) {
  ProfileSchedule schedule;
  std::array<bool, kParts.size()> seen{};
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    at = end + 1;
    const size_t equals = part.find('=');
    const std::string_view name = part.substr(0, equals);
    const auto row = std::ranges::find(kParts, name, &Part::name);
    if (equals == std::string_view::npos || row == kParts.end())
      refuse(text, fmt::format("has the part '{}', expected wait=N, warmup=N or active=N",
                               printable(part)));
    bool& is_seen = seen[static_cast<size_t>(row - kParts.begin())];
    if (is_seen) refuse(text, fmt::format("names {} twice", name));
    is_seen = true;
    const std::string_view digits = part.substr(equals + 1);
    const int least = name == "active" ? 1 : 0;
    const std::optional<int> steps = parse_number<int>(digits);
    if (!steps || *steps < least || *steps > kMostSteps)
      refuse(text, fmt::format("gives {} steps of {}, expected a whole number from {} to {}",
                               digits.empty() ? "no" : "'" + printable(digits) + "'", name, least,
                               kMostSteps));
    schedule.*(row->steps) = *steps;
  }
  return schedule;
}

std::string to_string(const ProfileSchedule& schedule) {
  return fmt::format("wait={},warmup={},active={}", schedule.wait, schedule.warmup,
                     schedule.active);
}

}  // namespace ridgeline
