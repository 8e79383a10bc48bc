// interleave() with shell scripts in place of studies, whose times are known.
#include "measure/interleave.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sstream>

#include "base/processors.h"
#include "measure/record_json.h"
#include "measure/test_support.h"

namespace ridgeline {
namespace {

constexpr const char* kStudy = R"sh(#!/bin/bash
here=$(dirname "$0"); ms=1; rows=1; checked=yes; turns=1000000
while [ $# -gt 0 ]; do
  case $1 in
    --ms) ms=$2; shift;;
    --rows) rows=$2; shift;;
    --turns) turns=$2; shift;;
    --results-dir) results=$2; shift;;
    --no-verify) checked=no;;
  esac
  shift
done
echo "$ms $checked $(nproc)" >> "$here/log"
for ((row = 0; row < rows; row++)); do
  echo "turns: row $row"
  echo "turns: measurement 0 forward"
  while read -r kind count; do
    [ "$kind" = stop ] && break
    ((turns-- > 0)) || { echo "fell over" >&2; exit 9; }
    line="turns: samples 0 $count"
    for ((i = 0; i < count; i++)); do line+=" $ms"; done
    echo "$line"
  done
  cat "$here/record" >> "$results/rows"
done
mv "$results/rows" "$results/study.jsonl"
)sh";

// Scripts that report --ms per sample for each of --rows, and log how they were started.
class FakeStudies {
 public:
  explicit FakeStudies(int threads = 1) {
    Record record = attention_record({});
    record.settings["threads"] = threads;
    write_text(directory_ / "record", to_line(record));
    write_text(directory_ / "study", kStudy);
    std::filesystem::permissions(directory_ / "study", std::filesystem::perms::owner_all);
  }

  Command command(const std::vector<std::string>& arguments) const {
    Command all = {(directory_ / "study").string()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
  }

  struct Start {
    std::string ms, checked;
    size_t processors = 0;
  };
  std::vector<Start> starts() const {
    std::istringstream log(read_text(directory_ / "log"));
    std::vector<Start> all;
    for (Start start; log >> start.ms >> start.checked >> start.processors;) all.push_back(start);
    return all;
  }

 private:
  TempDir directory_;
};

TEST(Interleave, OneExactFigurePerRoundAfterACheck) {
  const FakeStudies fakes;
  std::vector<std::pair<int, size_t>> told;
  const Interleaved result =
      interleave(fakes.command({"--ms", "1"}), fakes.command({"--ms", "1.05"}),
                 {.rounds = {.rounds = 3},
                  .progress = [&](int round, size_t row) { told.emplace_back(round, row); }});
  ASSERT_EQ(result.rows.size(), 1u);
  ASSERT_EQ(result.rows[0].phases.size(), 1u);
  const PairedPhase& phase = result.rows[0].phases[0];
  ASSERT_EQ(phase.log_ratios.size(), 3u);
  for (const double figure : phase.log_ratios) EXPECT_NEAR(figure, std::log(1.05), 1e-12);
  EXPECT_EQ(phase.base_ms.size(), phase.new_ms.size());
  EXPECT_EQ(phase.base_ms.front(), 1);
  EXPECT_EQ(result.base.size(), 3u);
  EXPECT_EQ(told.size(), 4u);
  const auto starts = fakes.starts();
  ASSERT_EQ(starts.size(), 8u);
  for (size_t i = 0; i < starts.size(); ++i)
    EXPECT_EQ(starts[i].checked, i < 2 ? "yes" : "no") << i;
}

TEST(Interleave, BothSidesTakeAsManySamplesEvenWhereOneWouldFillItsTurnWithFewer) {
  const FakeStudies fakes;
  for (const char* ms : {"1.45", "1.55", "3.1", "40"}) {
    const Interleaved result =
        interleave(fakes.command({"--ms", "1.45"}), fakes.command({"--ms", ms}),
                   {.rounds = {.rounds = 1}, .round_ms = 20});
    const PairedPhase& phase = result.rows.at(0).phases.at(0);
    EXPECT_EQ(phase.base_ms.size(), phase.new_ms.size()) << ms;
  }
}

TEST(Interleave, RoundsHaveAsManyProcessorsAsThreadsAndACoinDecidesWhoIsFirst) {
  const FakeStudies fakes(1);
  interleave(fakes.command({"--ms", "1"}), fakes.command({"--ms", "2"}),
             {.rounds = {.rounds = 24}, .round_ms = 1});
  const auto starts = fakes.starts();
  ASSERT_EQ(starts.size(), 50u);
  EXPECT_EQ(starts[0].processors, allowed_processors().size());
  int base_first = 0;
  for (size_t i = 2; i < starts.size(); ++i) {
    EXPECT_EQ(starts[i].processors, 1u);
    base_first += i % 2 == 0 && starts[i].ms == "1";
  }
  // The same side is first in all rounds once in eight million runs.
  EXPECT_GT(base_first, 0);
  EXPECT_LT(base_first, 24);
}

TEST(Interleave, ARowThatIsSettledIsLeftAloneAndTheLastOneEndsIt) {
  const FakeStudies fakes;
  const auto settled = [](const std::vector<PairedRow>& rows) {
    return std::vector<bool>{true, rows[1].phases[0].log_ratios.size() >= 14};
  };
  const Command study = fakes.command({"--rows", "2"});
  const Interleaved result =
      interleave(study, study, {.rounds = {.settled = settled}, .round_ms = 1});
  EXPECT_EQ(result.rows[0].phases[0].log_ratios.size(), size_t{kFirstLook});
  EXPECT_EQ(result.rows[1].phases[0].log_ratios.size(), 14u);
  EXPECT_EQ(result.base.size(), size_t{kFirstLook} + 14);  // settled rows have no more records
}

TEST(Interleave, ProgramsThatFallOverOrDoNotMatchAreTold) {
  const FakeStudies fakes;
  EXPECT_ERROR(interleave(fakes.command({}), fakes.command({"--turns", "7"}), {}),
               ErrorKind::environment, "fell over");
  EXPECT_ERROR(interleave(fakes.command({}), fakes.command({"--rows", "2"}), {}), ErrorKind::usage,
               "1 rows, the new side 2");
}

// A program that ends like this after one record.
Command ends_with(const TempDir& directory, const char* ending, Status status = Status::ok) {
  write_text(directory / "record", to_line(attention_record({.status = status})));
  write_text(directory / "study", std::string("#!/bin/bash\n"
                                              "cp $(dirname $0)/record ${!#}/study.jsonl\n"
                                              "echo out of luck >&2\n") +
                                      ending + "\n");
  std::filesystem::permissions(directory / "study", std::filesystem::perms::owner_all);
  return {(directory / "study").string()};
}

TEST(RunAlone, AProgramThatEndsBeforeItsLastRowIsTold) {
  const TempDir directory;
  EXPECT_ERROR(run_alone(ends_with(directory, "kill -9 $$"), {}), ErrorKind::environment,
               "ended with signal 9 (Killed) after 1 records: out of luck");
  EXPECT_ERROR(run_alone(ends_with(directory, "exit 4"), {}), ErrorKind::environment,
               "exit code 4");
  for (const auto& [ending, status] : {std::pair("exit 0", Status::oom),
                                       {"exit 3", Status::wrong},
                                       {"exit 4", Status::unsupported}})
    EXPECT_EQ(run_alone(ends_with(directory, ending, status), {})->at(0).status, status) << ending;
}

TEST(Interleave, CtrlCEndsIt) {
  const FakeStudies fakes;
  int asked = 0;
  const Interleaved result = interleave(fakes.command({}), fakes.command({}),
                                        {.interrupted = [&] { return ++asked > 20; }});
  EXPECT_TRUE(result.interrupted);
}

}  // namespace
}  // namespace ridgeline
