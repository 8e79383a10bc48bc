// Folders of src/ use only themselves and those before them, as docs/architecture.md lists them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kOrder = {"base",    "graph", "cost",   "autodiff", "models",
                                         "passes",  "plan",  "kernels", "jit",     "runtime",
                                         "compile", "measure", "api",    "report", "studies", "cli"};

size_t place_of(const std::string& folder) {
  return static_cast<size_t>(std::ranges::find(kOrder, folder) - kOrder.begin());
}

TEST(Folders, IncludeOnlyThemselvesAndThoseBeforeThem) {
  const fs::path root = fs::path(RIDGELINE_SOURCE_DIR) / "src";
  const std::regex include("^\\s*#include \"([a-z]+)/");
  std::set<std::string> folders;
  size_t seen = 0;
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(root)) {
    const std::string ending = file.path().extension();
    if (ending != ".cc" && ending != ".h") continue;
    const std::string folder = *file.path().lexically_relative(root).begin();
    folders.insert(folder);
    ASSERT_LT(place_of(folder), kOrder.size()) << folder << " is not in the list";
    std::ifstream text(file.path());
    for (std::string line; std::getline(text, line);) {
      std::smatch found;
      if (!std::regex_search(line, found, include)) continue;
      ++seen;
      const size_t place = place_of(found[1]);
      EXPECT_TRUE(place == kOrder.size() || place <= place_of(folder))
          << file.path().string() << ": " << line;
    }
  }
  EXPECT_EQ(folders.size(), kOrder.size());
  EXPECT_GT(seen, 500u);
}

}  // namespace
}  // namespace ridgeline
