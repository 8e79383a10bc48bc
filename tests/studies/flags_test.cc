// Declared flags give back, as words of a command line, what was set after they were declared.
#include "studies/flags.h"

#include <gtest/gtest.h>

#include <set>

#include "measure/test_support.h"
#include "studies/studies.h"

namespace ridgeline {
namespace {

TEST(Flags, OnlyWhatIsNoLongerTheDefaultIsWritten) {
  Words names = {"naive"}, shapes;
  std::vector<int64_t> sizes;
  int runs = 1;
  bool causal = false;
  Flags flags;
  flags.add("--impl", &names, "");
  flags.add("--shape", &shapes, "", {.splits = false});
  flags.add("-s,--size,--length", &sizes, "");
  flags.add("--runs", &runs, "");
  flags.add("--causal", &causal, "");
  EXPECT_EQ(flags.changed(), Words{});
  shapes = {"1,2", "3,4"};
  sizes = {256, 512};
  causal = true;
  EXPECT_EQ(flags.changed(),
            (Words{"--shape", "1,2", "--shape", "3,4", "--size", "256,512", "--causal"}));
  EXPECT_EQ(flags.find("--length"), flags.find("-s"));
  EXPECT_EQ(flags.find("--lengths"), nullptr);
  EXPECT_ERROR(flags.at("--lengths"), ErrorKind::internal, "--lengths");
}

// A number of samples that happens to be the default still replaces a default time budget.
TEST(Flags, WhatWasGivenIsWrittenEvenIfItIsTheDefault) {
  ProtocolFlags protocol{.iterations = 100, .time_budget = "1s"};
  Flags flags;
  add_protocol_flags(flags, &protocol);
  protocol.gave_iterations = true;
  EXPECT_EQ(flags.changed(), (Words{"--num-iterations", "100"}));
}

TEST(Studies, RefuseDurationsBeforeTheyOpenADevice) {
  for (const auto& [name, flag] :
       {std::pair("frontier", "--run-limit"), std::pair("frontier", "--probe-patience"),
        std::pair("roofline", "--settle-time"), std::pair("kernel", "--time-limit")}) {
    DeclaredStudy declared(*find_study(name));
    *std::get<std::string*>(declared.flags.at(flag).target) = "soon";
    EXPECT_ERROR(declared.study->check(), ErrorKind::usage, "soon");
  }
}

TEST(Studies, HaveNamesTurnsAndTablesOfTheirOwn) {
  std::set<std::string_view> names;
  std::set<int> turns;
  for (const StudyInfo& info : studies()) {
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_TRUE(info.turn == 0 || turns.insert(info.turn).second) << info.name;
    EXPECT_EQ(find_study(info.name), &info);
    const bool has_rows = info.turn > 0 || info.takes_turns;
    EXPECT_TRUE(!has_rows || info.csv != nullptr) << info.name;
    EXPECT_EQ(info.table == nullptr, info.notes == nullptr) << info.name;
    const DeclaredStudy declared(info);
    EXPECT_NE(declared.flags.find("--device"), nullptr) << info.name;
    EXPECT_EQ(declared.flags.changed(), Words{}) << info.name;
  }
}

TEST(Studies, ThatMeasureColdCachesSayThatColdRowsAreOthers) {
  const StudyAxes axes = compare_axes();
  for (const std::string_view name : {"gemm", "kernel", "decode"}) {
    Record cold;
    cold.study = name;
    cold.settings["mode"] = "cold";
    cold.series.push_back({"forward", {}, {}});
    Record hot = cold;
    hot.settings["mode"] = "hot";
    EXPECT_EQ(compare_records({&cold, 1}, {&cold, 1}, {.axes = axes}).rows.size(), 1u) << name;
    EXPECT_ERROR(compare_records({&cold, 1}, {&hot, 1}, {.axes = axes, .force = true}),
                 ErrorKind::usage, "no row is in both");
  }
  EXPECT_EQ(axes.size(), studies().size() + 1) << "one for each, and one for what harnesses wrote";
}

}  // namespace
}  // namespace ridgeline
