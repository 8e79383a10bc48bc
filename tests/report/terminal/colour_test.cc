#include "report/terminal/colour.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include "report/terminal/table.h"

namespace ridgeline {
namespace {

TEST(Colour, IsForTerminalsThatDoNotRefuseIt) {
  const int master = posix_openpt(O_RDWR | O_NOCTTY);
  ASSERT_TRUE(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
  std::FILE* terminal = std::fopen(ptsname(master), "w");
  ASSERT_NE(terminal, nullptr);
  std::FILE* file = std::tmpfile();
  unsetenv("NO_COLOR");
  setenv("TERM", "xterm", 1);
  EXPECT_TRUE(shows_colour(terminal));
  EXPECT_FALSE(shows_colour(file));
  setenv("NO_COLOR", "", 1);
  EXPECT_TRUE(shows_colour(terminal)) << "an empty value counts as none (no-color.org)";
  setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(shows_colour(terminal));
  unsetenv("NO_COLOR");
  setenv("TERM", "dumb", 1);
  EXPECT_FALSE(shows_colour(terminal));
  unsetenv("TERM");
  EXPECT_FALSE(shows_colour(terminal));
  std::fclose(terminal);
  std::fclose(file);
  close(master);
}

TEST(Colour, IsForStatusesAndVerdictsOnly) {
  EXPECT_EQ(tone_of("FASTER"), Tone::good);
  EXPECT_EQ(tone_of("SLOWER"), Tone::bad);
  EXPECT_EQ(tone_of("OOM"), Tone::caution);
  EXPECT_EQ(tone_of("success"), Tone::plain);
  EXPECT_EQ(tone_of("1.25"), Tone::plain);
  EXPECT_EQ(painted(Tone::plain, "1.25"), "1.25");
  EXPECT_EQ(painted(Tone::bad, "wrong"), "\033[31mwrong\033[0m");
}

TEST(Colour, TablesIntoPipesHaveNone) {
  const Table table{.columns = {"row", "status"}, .rows = {{"1", "OOM"}, {"2", "wrong"}}};
  if (isatty(STDOUT_FILENO)) GTEST_SKIP() << "stdout is a terminal";
  EXPECT_EQ(to_terminal(table), to_text(table));
}

}  // namespace
}  // namespace ridgeline
