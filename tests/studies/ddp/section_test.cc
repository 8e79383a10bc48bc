// Training on several ranks in reports, of records made by hand.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "measure/test_support.h"
#include "report/page/palette.h"
#include "report/page/terms.h"
#include "studies/ddp/tables.h"

namespace ridgeline::ddp_study_test {
namespace {

Record trained(const std::string& strategy, double step_ms, double exposed_ms, int context = 64) {
  Record record;
  record.study = "ddp";
  record.implementation = strategy;
  record.device = "cpu";
  record.workload = {{"model_size", "small"}, {"precision", "fp32"},
                     {"mode", "vanilla"},     {"ranks", 2},
                     {"backend", "threads"},  {"context_length", context},
                     {"batch_size", 4},       {"micro_batches", 2}};
  record.settings = {{"threads", 3}};
  if (strategy == "bucketed") record.settings["bucket_mb"] = 25;
  const auto around = [](double ms) {
    std::vector<double> samples;
    for (int i = 0; i < 12; ++i) samples.push_back(ms * (1 + 0.001 * i));
    return samples;
  };
  record.series = {series_of("step", around(step_ms)),
                   series_of("communication", around(2 * exposed_ms)),
                   series_of("exposed", around(exposed_ms))};
  be_quiet(record);
  return record;
}

TEST(DdpReport, AsksAnswersAndNamesWhatWasTrained) {
  const ReportInput input{.records = {trained("naive", 20, 10), trained("bucketed", 8, 2)}};
  const ReportSection section = ddp_section(report_context(input));
  EXPECT_TRUE(section.question.ends_with("?"));
  const std::string place =
      "small fp32 vanilla, context 64, batch 4 in 2 parts, 2 ranks of 3 "
      "threads by threads";
  EXPECT_TRUE(
      section.answer.starts_with("By the medians bucketed 25 MB has the shortest step, 8.0"))
      << section.answer;
  EXPECT_TRUE(section.answer.ends_with("; in it the rank that waits longest waits 2.01 ms."))
      << section.answer;
  EXPECT_TRUE(section.views.at(0).charts.at(0).series.at(1).points.at(0).has_interval())
      << "of the whole step";
  EXPECT_EQ(section.certainty.level, Certainty::Level::decided) << section.certainty.why;
  ASSERT_EQ(section.views.size(), 1u);
  EXPECT_EQ(section.views[0].name, place);
  EXPECT_TRUE(std::ranges::any_of(section.sentences, [&](const std::string& sentence) {
    return sentence.starts_with(place + ": bucketed 25 MB against naive is");
  }));
}

TEST(DdpReport, OneStrategyIsComparedWithNothingAndSettingsAreApart) {
  const ReportInput input{.records = {trained("naive", 20, 10), trained("flat", 8, 2, 128)}};
  const ReportSection section = ddp_section(report_context(input));
  EXPECT_EQ(section.views.size(), 2u);
  EXPECT_EQ(section.certainty.level, Certainty::Level::measured) << section.certainty.why;
  EXPECT_LACKS(section.answer, "shortest");
}

TEST(DdpReport, KindsOfWorkHaveNoColoursOfImplementationsAndNaiveIsNoAttention) {
  const ReportInput input{.records = {trained("naive", 20, 10)}};
  const ReportSection section = ddp_section(report_context(input));
  for (const ChartSeries& series : section.views.at(0).charts.at(0).series)
    EXPECT_TRUE(colour_class(series).starts_with("t")) << series.name;
  std::set<std::string> explained;
  for (const Term& term : new_terms(section, explained))
    EXPECT_LACKS(term.meaning, "attention") << term.word;
}

}  // namespace
}  // namespace ridgeline::ddp_study_test
