#include "base/child_process.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <thread>

#include "base/error.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

using Outcome = ChildProcess::Outcome;

ChildProcess shell(const std::string& script) {
  return ChildProcess({"/bin/sh", "-c", script});
}

TEST(ChildProcess, AnswersLinesOfAnyLength) {
  ChildProcess cat({"/bin/cat"});
  for (const size_t length : {size_t{0}, size_t{1}, size_t{1} << 16, size_t{300'000}}) {
    // Longer than a pipe holds: it is written while it is read.
    const std::string line(length, 'x');
    std::thread writer([&] { EXPECT_TRUE(cat.write_line(line)); });
    const ChildProcess::Reply reply = cat.read_line({});
    writer.join();
    ASSERT_EQ(reply.outcome, Outcome::line);
    EXPECT_EQ(reply.line, line);
  }
  EXPECT_EQ(cat.end(5), "exit code 0");
}

TEST(ChildProcess, EndsWhatIsTooSlow) {
  ChildProcess slow = shell("sleep 100");
  EXPECT_EQ(slow.read_line({.seconds = 0.05}).outcome, Outcome::too_slow);
  EXPECT_EQ(slow.end(0), "signal 9 (Killed)");
  EXPECT_EQ(slow.end(0), "signal 9 (Killed)") << "asking again changes nothing";
}

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

TEST(ChildProcess, ThatCannotStartLeavesNoDescriptorsOpen) {
  const size_t before = open_descriptors();
  EXPECT_THROW(ChildProcess({"/absent"}), Error);
  EXPECT_EQ(open_descriptors(), before);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const int next = dup(0);  // descriptors from here on are free
  close(next);
  const rlimit few{.rlim_cur = static_cast<rlim_t>(next) + 4, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  EXPECT_THROW(ChildProcess({"/bin/cat"}), Error) << "two of three pipes";
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_EQ(open_descriptors(), before);
}

TEST(ChildProcess, ChildrenOfTheChildEndWithIt) {
  int grandchild = 0;
  {
    ChildProcess parent = shell("sleep 100 & echo $!; wait");
    grandchild = std::atoi(parent.read_line({}).line.c_str());
    ASSERT_GT(grandchild, 0);
    ASSERT_EQ(kill(grandchild, 0), 0);
  }
  // Its new parent collects it in its own time; until then it is a zombie.
  std::string shown;
  for (int i = 0; i < 200; ++i) {
    ChildProcess state({"/bin/ps", "-o", "stat=", "-p", std::to_string(grandchild)});
    shown = state.read_line({}).line;
    if (shown.empty() || shown.front() == 'Z') break;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_TRUE(shown.empty() || shown.front() == 'Z') << shown;
}

TEST(ChildProcess, SaysHowItEndedAndKeepsItsErrors) {
  ChildProcess failing = shell("echo one line; echo a reason >&2; exit 3");
  EXPECT_EQ(failing.read_line({}).line, "one line");
  EXPECT_EQ(failing.read_line({}).outcome, Outcome::ended);
  EXPECT_EQ(failing.end(5), "exit code 3");
  EXPECT_EQ(failing.last_errors(), "a reason\n");
  ChildProcess crashing = shell("kill -SEGV $$");
  EXPECT_EQ(crashing.read_line({}).outcome, Outcome::ended);
  EXPECT_EQ(crashing.end(5), "signal 11 (Segmentation fault)");
}

TEST(ChildProcess, WritingToOneThatHasEndedIsNoSignal) {
  ChildProcess gone = shell("exec <&-; echo ready; sleep 100");
  ASSERT_EQ(gone.read_line({}).line, "ready");
  EXPECT_FALSE(gone.write_line("anybody?"));
}

TEST(ChildProcess, ManyErrorsDoNotBlockIt) {
  ChildProcess loud = shell("head -c 1000000 /dev/zero | tr '\\0' e >&2; echo done");
  EXPECT_EQ(loud.read_line({}).line, "done");
  EXPECT_LE(loud.last_errors().size(), 8192u);
}

TEST(ChildProcess, IsInterruptedWhileItIsWaitedFor) {
  ChildProcess slow = shell("sleep 100");
  int asked = 0;
  const auto reply = slow.read_line({.interrupted = [&] { return ++asked > 2; }});
  EXPECT_EQ(reply.outcome, Outcome::interrupted);
}

TEST(ChildProcess, HasTheEnvironmentThatIsAdded) {
  setenv("RIDGELINE_TEST_KEPT", "kept", 1);
  setenv("RIDGELINE_TEST_CHANGED", "old", 1);
  ChildProcess child({"/bin/sh", "-c", "echo $RIDGELINE_TEST_KEPT $RIDGELINE_TEST_CHANGED"},
                     {.environment = {{"RIDGELINE_TEST_CHANGED", std::string("new")}}});
  EXPECT_EQ(child.read_line({}).line, "kept new");
}

TEST(ChildProcess, ALineWithoutAnEndHasALimit) {
  ChildProcess endless = shell("yes | tr -d '\\n'");
  EXPECT_EQ(endless.read_line({.most_bytes = 100'000}).outcome, Outcome::too_long);
  ChildProcess whole = shell("echo 1234567; echo 12345678");
  EXPECT_EQ(whole.read_line({.most_bytes = 7}).line, "1234567");
  EXPECT_EQ(whole.read_line({.most_bytes = 7}).outcome, Outcome::too_long);
}

TEST(ChildProcess, IsRunToItsEndWithAllThatItWrote) {
  ChildProcess both({"/bin/sh", "-c", "echo out; echo error >&2; cat; exit 3"},
                    {.merge_errors = true});
  const ChildProcess::Output all = both.read_all({});
  EXPECT_EQ(all.outcome, Outcome::ended);
  EXPECT_EQ(all.text, "out\nerror\n");
  EXPECT_EQ(both.end(0), "exit code 3");
  ChildProcess loud = shell("head -c 1000000 /dev/zero | tr '\\0' x");
  EXPECT_EQ(loud.read_all({.most_bytes = 1000}).text, std::string(1000, 'x'));
  EXPECT_EQ(loud.end(0), "exit code 0");
}

TEST(ChildProcess, RunToItsEndIsCutShortByTheLimitAndByInterruption) {
  ChildProcess slow = shell("echo begun; sleep 100");
  EXPECT_EQ(slow.read_all({.seconds = 0.05}).outcome, Outcome::too_slow);
  EXPECT_EQ(slow.end(0), "signal 9 (Killed)");
  ChildProcess other = shell("sleep 100");
  int asked = 0;
  const auto all = other.read_all({.interrupted = [&] { return ++asked > 2; }});
  EXPECT_EQ(all.outcome, Outcome::interrupted);
}

// A compiler's driver may leave a server behind that keeps its streams open.
TEST(ChildProcess, WhoElseHoldsItsStreamsIsNotWaitedFor) {
  ChildProcess parent = shell("sleep 100 & echo done");
  const ChildProcess::Output all = parent.read_all({.seconds = 20});
  EXPECT_EQ(all.outcome, Outcome::ended);
  EXPECT_EQ(all.text, "done\n");
}

TEST(ChildProcess, AProgramThatIsNotThereIsAnError) {
  EXPECT_ERROR(ChildProcess({"/no/such/program"}), ErrorKind::environment, "/no/such/program");
}

TEST(FindProgram, LooksOnThePath) {
  EXPECT_EQ(find_program("/bin/sh"), "/bin/sh");
  EXPECT_EQ(find_program("sh").filename(), "sh");
  EXPECT_EQ(find_program("no-such-program-anywhere"), "");
  EXPECT_EQ(find_program("/etc/passwd"), "") << "it cannot be run";
  EXPECT_EQ(find_program("/etc"), "");
  EXPECT_EQ(find_program(""), "");
}

}  // namespace
}  // namespace ridgeline
