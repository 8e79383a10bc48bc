#include "report/terminal/progress.h"
#include "support/expect.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <sstream>

namespace ridgeline {
namespace {

struct Screen {
  std::ostringstream out;
  double clock_s = 0;

  // The default is too narrow for a bar.
  ProgressOptions options(size_t width = 59) {
    return {.out = &out, .width = width, .now_s = [this] { return clock_s; }};
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
  EXPECT_EQ(screen.line(), "[3/3] naive S=4096 d=64 ... 40 s left");
}

TEST(Progress, SeveralPartsMakeOneLineAndOneEstimate) {
  Screen screen;
  Progress progress(screen.options(100));
  const size_t roofline = progress.add_part({2, 2});
  const size_t attention = progress.add_part({4, 4, 4});
  progress.enter(roofline);
  progress.begin(0, "fp32 library");
  screen.clock_s = 2;
  progress.begin(1, "fp32 fma");
  EXPECT_EQ(screen.line(), "[2/5] fp32 fma ... #......... 15 s left");
  screen.clock_s = 4;
  progress.clear();
  screen.clock_s = 60;  // time between parts belongs to no step
  progress.enter(attention);
  progress.begin(0, "naive");
  EXPECT_TRUE(screen.line().starts_with("[3/5] naive ... ##")) << screen.line();
  EXPECT_TRUE(screen.line().ends_with(" 15 s left")) << screen.line();
}

TEST(Progress, StepsPassedOverCountForNothing) {
  Screen screen;
  Progress progress({1000, 1, 1}, screen.options());
  progress.skip(0);
  progress.begin(1, "a");
  screen.clock_s = 5;
  progress.begin(2, "b");
  EXPECT_EQ(screen.line(), "[3/3] b ... 5 s left");
}

TEST(Progress, SaysWhatAStepIsAtAndForHowLong) {
  Screen screen;
  Progress progress({1, 1}, screen.options(70));
  progress.begin(0, "small, vanilla");
  screen.clock_s = 10;
  progress.begin(1, "small, compiled");
  screen.clock_s = 11.5;
  progress.stage("plan");
  EXPECT_EQ(screen.line(), "[2/2] small, compiled: plan, 1.5 s ... #####..... 9 s left");
  screen.clock_s = 12;
  progress.begin(1, "another");
  EXPECT_TRUE(screen.line().starts_with("[2/2] another ... ")) << "the stage is gone";
  Progress cut({1}, screen.options(40));
  cut.begin(0, std::string(100, 'x'));
  cut.stage("plan");
  EXPECT_TRUE(screen.line().ends_with("...: plan, 0.0 s ...")) << screen.line();
  EXPECT_LT(screen.line().size(), 40u);
  Progress hidden({1}, {});
  hidden.begin(0, "a");
  hidden.stage("b");  // without output
  hidden.tick();
}

TEST(Progress, BetweenStepsNoStageIsShown) {
  Screen screen;
  Progress progress({1, 1}, screen.options());
  progress.stage("plan");
  EXPECT_EQ(screen.out.str(), "");
  progress.begin(0, "a");
  progress.clear();
  const std::string before = screen.out.str();
  progress.stage("plan");
  EXPECT_EQ(screen.out.str(), before);
}

TEST(Progress, BetweenSamplesTheLineIsBroughtUpToDateOnceASecond) {
  Screen screen;
  Progress progress({1, 1}, screen.options());
  progress.begin(0, "a");
  screen.clock_s = 20;
  progress.begin(1, "b");
  EXPECT_TRUE(screen.line().ends_with("20 s left")) << screen.line();
  const std::string before = screen.out.str();
  screen.clock_s = 20.5;
  progress.tick();
  EXPECT_EQ(screen.out.str(), before) << "too soon";
  screen.clock_s = 31;
  progress.tick();
  EXPECT_TRUE(screen.line().ends_with("9 s left")) << screen.line();
  progress.clear();
  const std::string cleared = screen.out.str();
  screen.clock_s = 60;
  progress.tick();
  EXPECT_EQ(screen.out.str(), cleared) << "no line, no tick";
}

TEST(Progress, DurationsAreAsExactAsAnEstimateIs) {
  EXPECT_EQ(rough_duration(0.2), "1 s");
  EXPECT_EQ(rough_duration(7.2), "8 s");
  EXPECT_EQ(rough_duration(41), "45 s");
  EXPECT_EQ(rough_duration(130), "3 min");
  EXPECT_EQ(rough_duration(4000), "1 h 10 min");
}

TEST(Progress, FitsTheWidthAndEscapesTheLabel) {
  Screen screen;
  Progress progress({1}, screen.options(40));
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
  EXPECT_LACKS(plain.out.str(), "\033[2m");
  EXPECT_HAS(colored.out.str(), "\033[2m");
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
