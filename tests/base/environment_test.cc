#include "base/environment.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace ridgeline {
namespace {

TEST(Environment, WhatIsNotSetAndWhatIsSetToNothingAreEmpty) {
  const char* name = "RIDGELINE_ENVIRONMENT_TEST";
  EXPECT_EQ(environment(name), "");
  setenv(name, "a value", 1);
  EXPECT_EQ(environment(name), "a value");
  setenv(name, "", 1);
  EXPECT_EQ(environment(name), "");
  unsetenv(name);
}

}  // namespace
}  // namespace ridgeline
