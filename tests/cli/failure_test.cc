// What goes wrong outside the program: places that cannot be written, full disks, Ctrl-C, a second
// run.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>

#include "cli/csv.h"
#include "cli/run_ridgeline.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

Arguments rows(const std::string& seq_lens, const TinyOptions& options = {}) {
  return tiny_attention({"--impl", "naive", "--d-model", "8", "--seq-len", seq_lens}, options);
}

const std::string kTwelve = "16,20,24,28,32,36,40,44,48,52,56,60";

// Rows of some tenths of a second, so that a signal falls into the middle of the sweep.
Arguments slow_rows() {
  return rows(kTwelve, {.iterations = "20000"});
}

void expect_unwritable(const Finished& run, const std::string& named) {
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_TRUE(contains(run.err, named)) << run.err;
  EXPECT_FALSE(contains(run.err, "unexpected")) << run.err;
}

TEST(UnwritableResults, AFileInTheWayOfTheDirectory) {
  const Sandbox sandbox;
  write_text(sandbox / "taken", "mine");
  expect_unwritable(sandbox.run(rows("16") + Arguments{"--results-dir", "taken/below"}),
                    "taken/below");
  expect_unwritable(sandbox.run({"memory", "--seq-len", "16", "--results-dir", "taken/below"}),
                    "taken/below");
  EXPECT_EQ(read_text(sandbox / "taken"), "mine");
}

TEST(UnwritableResults, ADirectoryInTheWayOfTheRecords) {
  const Sandbox sandbox;
  fs::create_directories(sandbox.attention("attention.jsonl"));
  expect_unwritable(sandbox.run(rows("16")), "attention.jsonl");
}

TEST(UnwritableResults, ANameThatIsTooLong) {
  const Sandbox sandbox;
  const std::string name(300, 'n');
  expect_unwritable(sandbox.run(rows("16") + Arguments{"--results-dir", name}), name);
  expect_unwritable(sandbox.run(rows("16") + Arguments{"--resume", "--results-dir", name}), name);
}

TEST(UnwritableResults, AnOutputFileInAnImpossiblePlaceIsToldBeforeTheFirstRow) {
  const Sandbox sandbox;
  write_text(sandbox / "taken", "mine");
  fs::create_directories(sandbox / "folder.csv");
  for (const std::string output : {"taken/a.csv", "taken/below/a.md", "folder.csv", "/proc/a.csv"})
    for (const Arguments& study :
         {rows("16,32"), Arguments{"model", "--device", "cpu"},
          Arguments{"memory", "--device", "cpu", "--model-size", "small", "--context-length", "8"}})
      expect_unwritable(sandbox.run(study + Arguments{"--output", output}),
                        "cannot write '" + output + "'");
  EXPECT_FALSE(fs::exists(sandbox / "results"));
  EXPECT_EQ(read_text(sandbox / "taken"), "mine");
}

TEST(UnwritableResults, AnInterruptedSweepLeavesWhatItHasAndNoEmptyOutput) {
  const Sandbox sandbox;
  Running sweep(sandbox.path(), slow_rows() + Arguments{"--output", "new/further.csv"}, {});
  ASSERT_TRUE(sweep.collect(seconds{30}, [&] { return !sandbox.results().records.empty(); }));
  EXPECT_FALSE(fs::exists(sandbox / "new"));
  sweep.send(SIGKILL);
  EXPECT_EQ(sweep.wait().signal, SIGKILL);
  EXPECT_EQ(std::distance(fs::directory_iterator(sandbox.path()), {}), 1) << "only results";
  const Arguments rest = rows("16,20") + Arguments{"--resume", "--output", "new/further.csv"};
  ASSERT_EQ(sandbox.run(rest).exit_code, 0);
  EXPECT_EQ(parse_csv(read_text(sandbox / "new/further.csv")).rows.size(), 2u);
}

// A limit on the size of files stands in for the disk: a part of a record fits, then no more.
TEST(FullDisk, InTheMiddleOfASweepIsExit4AndLosesNothing) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(rows(kTwelve), {.limits = {{RLIMIT_FSIZE, 10'000}}});
  EXPECT_EQ(run.exit_code, 4) << run.err << " signal " << run.signal;
  EXPECT_TRUE(contains(run.err, "cannot write to 'results/attention/attention.jsonl'")) << run.err;
  EXPECT_TRUE(contains(run.err, "--resume")) << run.err;
  const ReadResult results = sandbox.results();
  EXPECT_TRUE(results.problems.empty());
  EXPECT_GE(results.records.size(), 2u);
  EXPECT_LT(results.records.size(), 12u);
  const Csv csv = parse_csv(read_text(sandbox.attention("attention.csv")));
  EXPECT_EQ(csv.rows.size(), results.records.size());
}

TEST(FullDisk, ResumeCompletesTheSweepOnceThereIsSpace) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(rows(kTwelve), {.limits = {{RLIMIT_FSIZE, 10'000}}}).exit_code, 4);
  EXPECT_EQ(sandbox.run(rows(kTwelve) + Arguments{"--resume"}).exit_code, 0);
  expect_each_once(sandbox.results().records, 12);
}

TEST(FullDisk, UnderTheTablesIsExit4AndTheRecordsAreSafe) {
  const Sandbox sandbox;
  fs::create_directories(sandbox / "results/attention");
  fs::create_symlink("/dev/full", sandbox.attention("attention.csv"));
  const Finished run = sandbox.run(rows("16,32"));
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_TRUE(contains(run.err, "attention.csv")) << run.err;
  expect_each_once(sandbox.results().records, 2);
}

TEST(FullDisk, UnderTheFurtherOutputIsExit4AndTheRecordsAreSafe) {
  const Sandbox sandbox;
  fs::create_symlink("/dev/full", sandbox / "further.csv");
  const Finished run = sandbox.run(rows("16,32") + Arguments{"--output", "further.csv"});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_TRUE(contains(run.out, "seq_len")) << "what was measured is shown all the same";
  EXPECT_TRUE(contains(run.err, "further.csv")) << run.err;
  expect_each_once(sandbox.results().records, 2);
}

TEST(FullDisk, UnderStdoutIsNotSilent) {
  const Sandbox sandbox;
  for (const Arguments& arguments :
       {rows("16"), rows("16") + Arguments{"--dry-run"}, Arguments{"doctor"}}) {
    const Finished run = sandbox.run(arguments, {.stdout_to = "/dev/full"});
    EXPECT_EQ(run.exit_code, 4) << arguments[0] << ": " << run.err;
    EXPECT_NE(run.err, "");
  }
}

// The real thing, where the system lets us mount a small file system in a namespace of our own.
TEST(FullDisk, OfASmallFileSystemLosesNothing) {
  constexpr int kCannotMount = 77;
  const Sandbox sandbox;
  fs::create_directories(sandbox / "results");
  const int status = in_child([&] {
    const bool alone = unshare(CLONE_NEWNS) == 0 || unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0;
    if (!alone || mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0 ||
        mount("none", (sandbox / "results").c_str(), "tmpfs", 0, "size=20k") != 0)
      return kCannotMount;
    const Finished run = sandbox.run(rows(kTwelve));
    if (run.exit_code != 4 || !contains(run.err, "No space left")) return 1;
    const ReadResult results = sandbox.results();
    if (!results.problems.empty()) return 2;
    return results.records.size() >= 2 && results.records.size() < 12 ? 0 : 3;
  });
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == kCannotMount) GTEST_SKIP() << "no file system can be mounted here";
  EXPECT_EQ(WEXITSTATUS(status), 0) << "1: exit code or message, 2: broken lines, 3: lost records";
}

void expect_end_with_what_it_has(int signal) {
  const Sandbox sandbox;
  Running sweep(sandbox.path(), slow_rows(), {});
  ASSERT_TRUE(sweep.collect(seconds{30}, [&] { return sandbox.results().records.size() >= 2; }));
  sweep.send(signal);
  const Finished run = sweep.wait();
  EXPECT_EQ(run.exit_code, 130) << run.err << " signal " << run.signal;
  const ReadResult results = sandbox.results();
  EXPECT_TRUE(results.problems.empty());
  EXPECT_GE(results.records.size(), 2u);
  EXPECT_LT(results.records.size(), 12u);
  for (const Record& record : results.records)
    EXPECT_EQ(record.find_series("forward")->samples_ms.size(), 20000u) << "a row cut short";
  EXPECT_EQ(parse_csv(read_text(sandbox.attention("attention.csv"))).rows.size(),
            results.records.size());
  EXPECT_TRUE(contains(
      run.err, fmt::format("interrupted after {} of 12 rows; --resume", results.records.size())))
      << run.err;
  EXPECT_TRUE(contains(run.out, "seq_len")) << run.out;

  EXPECT_EQ(sandbox.run(rows(kTwelve) + Arguments{"--resume"}).exit_code, 0);
  expect_each_once(sandbox.results().records, 12);
}

TEST(Interrupt, EndsTheSweepWithWhatItHas) {
  expect_end_with_what_it_has(SIGINT);
}

TEST(Interrupt, SoDoesTheEndThatABatchSystemAsksFor) {
  expect_end_with_what_it_has(SIGTERM);
}

// Neither may a second run write between the lines of the first, nor move its file away.
void expect_second_run_is_turned_away(const Arguments& second) {
  const Sandbox sandbox;
  Running first(sandbox.path(), slow_rows(), {});
  ASSERT_TRUE(first.collect(seconds{30}, [&] { return !sandbox.results().records.empty(); }));
  const Finished run = sandbox.run(second);
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_TRUE(contains(run.err, "another run is writing")) << run.err;
  first.send(SIGINT);
  EXPECT_EQ(first.wait().exit_code, 130);
  const ReadResult results = sandbox.results();
  ASSERT_FALSE(results.records.empty());
  for (const Record& record : results.records)
    EXPECT_EQ(record.find_series("forward")->samples_ms.size(), 20000u) << "of the second run";
}

TEST(SecondRun, WithResumeIsTurnedAway) {
  expect_second_run_is_turned_away(rows("16") + Arguments{"--resume"});
}

TEST(SecondRun, WithoutResumeIsTurnedAway) {
  expect_second_run_is_turned_away(rows("16"));
}

}  // namespace
}  // namespace ridgeline
