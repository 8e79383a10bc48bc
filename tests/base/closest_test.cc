#include "base/closest.h"

#include <gtest/gtest.h>

namespace ridgeline {
namespace {

const std::vector<std::string> kNames = {"naive", "compiled", "flash", "torch.sdpa",
                                         "torch.sdpa.flash"};

TEST(Closest, FindsANameThatIsALetterOff) {
  EXPECT_EQ(closest("flush", kNames), "flash");
  EXPECT_EQ(closest("falsh", kNames), "flash") << "two letters swapped count once";
  EXPECT_EQ(closest("compile", kNames), "compiled");
  EXPECT_EQ(closest("Naive", kNames), "naive");
}

TEST(Closest, ElseTheShortestThatHasTheWordInIt) {
  EXPECT_EQ(closest("sdpa", kNames), "torch.sdpa");
  EXPECT_EQ(closest("flash-attention", {"flash", "compiled"}), "flash");
}

TEST(Closest, IsSilentWhereNothingIsNear) {
  EXPECT_EQ(closest("tiny", kNames), "");
  EXPECT_EQ(closest("fp7", {"fp32", "bf16"}), "") << "half of a short word is another word";
  EXPECT_EQ(closest("", kNames), "");
  EXPECT_EQ(closest(std::string(100'000, 'f'), kNames), "");
}

TEST(UnknownName, NamesTheValueWhatIsKnownAndWhatMayHaveBeenMeant) {
  const Error error = unknown_name("spda", {.what = "an implementation",
                                            .names = {"naive", "flash"},
                                            .others = {"sdpa"},
                                            .more = "--list has more"});
  EXPECT_EQ(error.kind(), ErrorKind::usage);
  EXPECT_EQ(error.message(), "'spda' is not an implementation");
  EXPECT_EQ(error.next_step(), "did you mean 'sdpa'? use one of: naive, flash; --list has more");
}

}  // namespace
}  // namespace ridgeline
