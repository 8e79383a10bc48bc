#include "base/processors.h"

#include <gtest/gtest.h>

namespace ridgeline {
namespace {

TEST(Processors, TurnsGoRoundAndAllAreNoMoreThanAll) {
  const std::vector<int> all = {2, 3, 5};
  EXPECT_EQ(some_processors(all, 1, 0), (std::vector<int>{2}));
  EXPECT_EQ(some_processors(all, 1, 4), (std::vector<int>{3}));
  EXPECT_EQ(some_processors(all, 2, 1), (std::vector<int>{5, 2}));
  EXPECT_EQ(some_processors(all, 3, 1), all);
  EXPECT_EQ(some_processors(all, 64, 7), all);
}

TEST(Processors, ARestrictionHoldsWhileItLives) {
  const std::vector<int> before = allowed_processors();
  ASSERT_FALSE(before.empty());
  {
    const OnProcessors here({before.back()});
    EXPECT_EQ(allowed_processors(), (std::vector<int>{before.back()}));
    const OnProcessors anywhere({});  // nothing said: nothing changed
    EXPECT_EQ(allowed_processors(), (std::vector<int>{before.back()}));
  }
  EXPECT_EQ(allowed_processors(), before);
}

}  // namespace
}  // namespace ridgeline
