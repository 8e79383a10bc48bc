// Lists sorted by a key.
#include "base/sort_by.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

namespace ridgeline {
namespace {

struct Named {
  int key;
  std::string name;
};

std::string names(const std::vector<Named>& list) {
  std::string text;
  for (const Named& each : list) text += each.name;
  return text;
}

TEST(SortBy, OrdersByTheKeyAndKeepsTheOrderOfEquals) {
  std::vector<Named> list = {{2, "a"}, {1, "b"}, {2, "c"}, {0, "d"}, {1, "e"}};
  sort_by(list, &Named::key);
  EXPECT_EQ(names(list), "dbeac");
}

TEST(SortBy, FallingKeepsTheOrderOfEqualsToo) {
  std::vector<Named> list = {{2, "a"}, {1, "b"}, {2, "c"}, {0, "d"}, {1, "e"}};
  sort_by_falling(list, [](const Named& each) { return each.key; });
  EXPECT_EQ(names(list), "acbed");
}

TEST(SortBy, MovesWhatCannotBeCopied) {
  std::vector<std::unique_ptr<int>> list;
  for (int value : {3, 1, 2}) list.push_back(std::make_unique<int>(value));
  sort_by(list, [](const auto& each) { return *each; });
  EXPECT_EQ(*list[0], 1);
  EXPECT_EQ(*list[1], 2);
  EXPECT_EQ(*list[2], 3);
}

TEST(SortBy, DistinctHasEachOnceInGrowingOrder) {
  EXPECT_EQ(distinct(std::vector<int>{3, 1, 3, 2, 1}), (std::vector<int>{1, 2, 3}));
}

}  // namespace
}  // namespace ridgeline
