#include "profile/schedule.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

TEST(ProfileSchedule, IsReadAsItIsWritten) {
  EXPECT_EQ(parse_profile_schedule("wait=1,warmup=3,active=6"), ProfileSchedule{});
  EXPECT_EQ(parse_profile_schedule("active=2,wait=0"),
            (ProfileSchedule{.wait = 0, .warmup = 3, .active = 2}));
  const ProfileSchedule schedule{.wait = 4, .warmup = 0, .active = 9};
  EXPECT_EQ(parse_profile_schedule(to_string(schedule)), schedule);
  EXPECT_EQ(schedule.steps(), 13);
}

TEST(ProfileSchedule, WhatDoesNotFitIsNamed) {
  const auto message = [](const char* text) -> std::string {
    try {
      parse_profile_schedule(text);
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::usage);
      EXPECT_HAS(error.next_step(), "wait=1,warmup=3,active=6");
      return error.message();
    }
    return "none";
  };
  for (const auto& [text, part] : std::initializer_list<std::pair<const char*, const char*>>{
           {"", "has the part ''"},
           {"wait", "has the part 'wait'"},
           {"steps=3", "has the part 'steps=3'"},
           {"wait=1,,active=2", "has the part ''"},
           {"wait=1,wait=2", "names wait twice"},
           {"active=0", "gives '0' steps of active"},
           {"warmup=-1", "gives '-1' steps of warmup"},
           {"warmup=", "gives no steps of warmup"},
           {"warmup=3x", "gives '3x' steps"},
           {"wait=99999999999999999999", "steps of wait"},
           {"wait=1 ,active=1", "gives '1 ' steps"},
           {"wait=\n", "\\n"}})
    EXPECT_HAS(message(text), part) << text << ": " << message(text);
}

}  // namespace
}  // namespace ridgeline
