#include "measure/turns.h"

#include <gtest/gtest.h>

namespace ridgeline {
namespace {

TEST(Turns, ReportsAreReadBackAsTheyWereWritten) {
  for (const TurnReport& report :
       {TurnReport{.kind = TurnReport::Kind::row, .index = 7},
        TurnReport{.kind = TurnReport::Kind::measurement, .names = {"forward", "backward"}},
        TurnReport{.kind = TurnReport::Kind::samples,
        .samples_ms = {{0.1, 1.0 / 3}, {}, {1e-300, 1e300}}}})
    EXPECT_EQ(parse_report(report_line(report)), report) << report_line(report);
}

TEST(Turns, OtherOutputIsNoReport) {
  for (const char* line : {"", "a table", "turns: ", "turns: samples", "turns: samples 0 2 1.5",
                           "turns: samples 0 99999999999 1", "turns: dance 1"})
    EXPECT_FALSE(parse_report(line)) << line;
}

TEST(Turns, TurnsAreReadBackAndNonsenseIsNot) {
  const auto turn = parse_turn(turn_line({.kind = Turn::Kind::sample, .count = 12}));
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->count, 12);
  EXPECT_EQ(turn->kind, Turn::Kind::sample);
  for (const char* line : {"", "sample", "sample -1", "sample x", "jump 3"})
    EXPECT_FALSE(parse_turn(line)) << line;
}

}  // namespace
}  // namespace ridgeline
