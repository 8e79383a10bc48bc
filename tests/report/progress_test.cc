#include "report/progress.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>

namespace ridgeline {
namespace {

struct Screen {
  std::ostringstream out;
  double clock_s = 0;

  ProgressOptions options() {
    return {.out = &out, .now_s = [this] { return clock_s; }};
  }
  std::string line() const {
    const std::string text = out.str();
    return text.substr(text.rfind('\r') + 4);  // after the carriage return and the erase
  }
};

TEST(Progress, CountsStepsAndEstimatesByWeight) {
  Screen screen;
  Progress progress({1, 3, 16}, screen.options());
  progress.begin(0, "naive S=256 d=64");
  EXPECT_EQ(screen.line(), "[1/3] naive S=256 d=64 ...");
  screen.clock_s = 10;  // 4 of 20 parts are done
  progress.begin(2, "naive S=4096 d=64");
  EXPECT_EQ(screen.line(), "[3/3] naive S=4096 d=64 ... about 40.0 s left");
}

TEST(Progress, StepsPassedOverCountForNothing) {
  Screen screen;
  Progress progress({1000, 1, 1}, screen.options());
  progress.skip(0);
  progress.begin(1, "a");
  screen.clock_s = 5;
  progress.begin(2, "b");
  EXPECT_EQ(screen.line(), "[3/3] b ... about 5.00 s left");
}

TEST(Progress, SaysWhatAStepIsAtAndForHowLong) {
  Screen screen;
  Progress progress({1, 1}, screen.options());
  screen.clock_s = 10;
  progress.begin(1, "small, compiled");
  screen.clock_s = 11.5;
  progress.stage("3 of 14 kernels compiled");
  EXPECT_EQ(screen.line(),
            "[2/2] small, compiled: 3 of 14 kernels compiled, 1.5 s ... about 12.0 s left");
  screen.clock_s = 12;
  progress.begin(1, "another");
  EXPECT_EQ(screen.line(), "[2/2] another ... about 12.0 s left") << "the stage is gone";
  ProgressOptions narrow = screen.options();
  narrow.width = 40;
  Progress cut({1}, narrow);
  cut.begin(0, std::string(100, 'x'));
  cut.stage("plan");
  EXPECT_TRUE(screen.line().ends_with("...: plan, 0.0 s ...")) << screen.line();
  EXPECT_LT(screen.line().size(), 40u);
  Progress hidden({1}, {});
  hidden.begin(0, "a");
  hidden.stage("b");  // nobody watches
}

TEST(Progress, FitsTheWidthAndEscapesTheLabel) {
  Screen screen;
  ProgressOptions options = screen.options();
  options.width = 40;
  Progress progress({1}, options);
  progress.begin(0, "\x1b[2J" + std::string(500, 'x'));
  EXPECT_LT(screen.line().size(), 40u);
  EXPECT_EQ(screen.line().find('\x1b'), std::string::npos);
}

TEST(Progress, UsesColourOnlyIfAsked) {
  Screen plain, colored;
  Progress(std::vector<double>{1}, plain.options()).begin(0, "a");
  ProgressOptions options = colored.options();
  options.color = true;
  Progress(std::vector<double>{1}, options).begin(0, "a");
  EXPECT_EQ(plain.out.str().find("\033[2m"), std::string::npos);
  EXPECT_NE(colored.out.str().find("\033[2m"), std::string::npos);
}

TEST(Progress, TakesItsLineAwayAtTheEnd) {
  Screen screen;
  { Progress({1}, screen.options()).begin(0, "a"); }
  EXPECT_EQ(screen.line(), "");
}

TEST(Progress, SaysNothingWhereStderrIsNoTerminal) {
  const int saved = dup(STDERR_FILENO);
  ASSERT_GE(saved, 0);
  std::FILE* elsewhere = std::tmpfile();
  dup2(fileno(elsewhere), STDERR_FILENO);
  const ProgressOptions options = terminal_progress();
  dup2(saved, STDERR_FILENO);
  close(saved);
  std::fclose(elsewhere);
  EXPECT_EQ(options.out, nullptr);
}

}  // namespace
}  // namespace ridgeline
