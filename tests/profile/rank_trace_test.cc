// The trace of a step of several ranks, as viewers read it.
#include "profile/rank_trace.h"

#include <gtest/gtest.h>

#include "measure/test_support.h"
#include "profile/trace_check.h"

namespace ridgeline {
namespace {

std::vector<RankTimeline> two_ranks() {
  RankTimeline timeline{
      .computation = {{"late", "kernel", 500, 900}, {"early \"quoted\"", "kernel", 0, 600}},
      .communication = {{"bucket 0", "collective", 300, 700}}};
  return {timeline, timeline};
}

TEST(RankTraces, HaveATrackOfEachKindForEveryRankWithoutOverlaps) {
  const TempDir folder;
  for (const char* name : {"step.json", "step.json.gz"}) {
    const std::filesystem::path path = folder / name;
    write_rank_trace(two_ranks(), "two", path);
    const testing::ReadTrace trace =
        testing::read_trace(path.extension() == ".gz" ? testing::gunzip(path) : read_text(path));
    EXPECT_EQ(trace.head.at("traceName").text(), "two");
    EXPECT_EQ(testing::overlap_in(trace.events), "");
    EXPECT_EQ(testing::events_of(trace, "X", "kernel").size(), 4u);
    EXPECT_EQ(testing::events_of(trace, "X", "collective").size(), 2u);
    std::map<std::string, int> named;
    for (const Json* event : testing::events_of(trace, "M"))
      ++named[event->at("args").value("name", "")];
    EXPECT_EQ(named["rank 0"], 1);
    EXPECT_EQ(named["rank 1"], 1);
    EXPECT_EQ(named["computation"], 2);
    EXPECT_EQ(named["communication"], 2);
  }
}

TEST(RankTraces, TravelAsText) {
  const RankTimeline one = two_ranks()[0];
  const RankTimeline back = rank_timeline(Json::parse(to_json(one).dump()));
  ASSERT_EQ(back.computation.size(), 2u);
  EXPECT_EQ(back.computation[1].name, "early \"quoted\"");
  EXPECT_EQ(back.communication[0].begin_ns, 300);
  EXPECT_EQ(back.communication[0].end_ns, 700);
}

}  // namespace
}  // namespace ridgeline
