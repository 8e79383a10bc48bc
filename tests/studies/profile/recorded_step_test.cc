// One step of a profile in records: written, read back, and what a damaged file leaves of it.
#include "studies/profile/recorded_step.h"

#include <gtest/gtest.h>

#include "report/page/html_page.h"
#include "report/page/rows.h"
#include "studies/profile/fold_rows.h"
#include "studies/profile/tables.h"
#include "support/expect.h"

namespace ridgeline::profile_study_test {
namespace {

// Two steps on two streams; the second is the one that is kept.
Profile two_streams() {
  Profile profile;
  profile.has_queue = true;
  profile.has_nodes = false;
  profile.steps = {{0, 0, 1000}, {1, 1000, 9000}};
  for (uint32_t step = 0; step < 2; ++step)
    for (uint32_t i = 0; i < 4; ++i) {
      Invocation each;
      each.work.name = i == 3 ? "reduce" : "gemm";
      each.work.begin_ns = 1000 * step + 100 * i;
      each.work.end_ns = each.work.begin_ns + 80;
      each.work.stream = 7 + i % 2;
      each.step = step;
      each.category = i == 3 ? Category::other : Category::gemm;
      profile.invocations.push_back(each);
    }
  return profile;
}

TEST(RecordedStep, KeepsTheLastStepOnItsStreams) {
  Record record;
  record.study = "profile";
  record.workload = {{"of", "model"}, {"model_size", "small"}};
  record.metrics = Json{{"step", step_json(two_streams())}};
  const auto step = recorded_step(record);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->tracks, (std::vector<std::string>{"stream 7", "stream 8"}));
  ASSERT_EQ(step->work.size(), 4u);
  EXPECT_EQ(step->work[0].begin_us, 0);
  EXPECT_DOUBLE_EQ(step->work[3].begin_us, 0.3);
  EXPECT_DOUBLE_EQ(step->work[3].us, 0.08);
  EXPECT_EQ(step->work[3].track, 1u);
  EXPECT_EQ(step->work[3].name, "reduce");
  EXPECT_EQ(step->work[0].category, "gemm");
  EXPECT_EQ(step->left_out, 0u);

  const ReportInput input{.records = {record}};
  const ReportSection section = step_section(report_context(input));
  EXPECT_HAS(section.answer, "4 pieces of work");
  const Chart& chart = section.views.at(0).charts.at(0);
  EXPECT_TRUE(chart.zooms);
  EXPECT_EQ(chart.categories.size(), 2u) << "both streams";
  EXPECT_EQ(chart.series.size(), 2u) << "a colour per kind of work";
  for (const ChartSeries& series : chart.series)
    EXPECT_EQ(series.colour, category_colour(series.name)) << "the same in all charts";
  EXPECT_NE(category_colour("gemm"), category_colour("elementwise"));
  EXPECT_EQ(category_colour("of another program"), category_colour("other"));
  EXPECT_EQ(section.question, "What runs when?") << "no row says that the device waits";
}

TEST(RecordedStep, OfALongStepTheFirstPiecesAreKept) {
  Profile profile = two_streams();
  Invocation last = profile.invocations.back();
  for (size_t i = 0; i < kMostWork;
       ++i) {  // one after the other: what overlaps has tracks of its own
    last.work.begin_ns += 100;
    last.work.end_ns += 100;
    profile.invocations.push_back(last);
  }
  Record record;
  record.metrics = Json{{"step", step_json(profile)}};
  const auto step = recorded_step(record);
  ASSERT_TRUE(step);
  EXPECT_EQ(step->work.size(), kMostWork);
  EXPECT_EQ(step->left_out, 4u);
  EXPECT_TRUE(step_json(Profile{}).is_null());
}

TEST(RecordedStep, OfADamagedFileIsWhatCanBeRead) {
  Record record;
  record.study = "profile";
  record.workload = {{"of", "model"}};
  for (
      const char* text :
      {R"(5)", R"([])", R"({"work": 3})", R"({"tracks": [], "work": [[0, 1, 2, 0, 0, 0, 0]]})",
       R"({"tracks": ["a"], "work": [[9, 1, 2], [0, -1, 2], [0, "x", 2], [0], "y", [0, 1e300, 1]]})",
       R"({"tracks": [1], "words": {}, "work": [[0, 1, 2, 99, -1, "z", 1e99]], "left_out": -3})",
       R"({"tracks": ["<script>x</script>"], "words": ["</script><script>window.owned=1</script>"],
            "work": [[0, 1, 2, 0, 0, 0, 0]]})"}) {
    record.metrics = Json{{"step", Json::parse(text)}};
    const auto step = recorded_step(record);
    EXPECT_LE(step ? step->work.size() : 0, 1u) << text;
    const ReportDocument document = make_report({.records = {record}, .sections = {step_section}});
    EXPECT_LACKS(to_html(document), "<script>window");
  }
}

}  // namespace
}  // namespace ridgeline::profile_study_test
