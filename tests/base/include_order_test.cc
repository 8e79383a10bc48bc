// Folders of src/ use only themselves and those before them, as docs/architecture.md lists them,
// share no name of a class, and those after runtime/ know devices by their interface alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>
#include <string>
#include <vector>

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> kOrder = {"base",   "text",    "graph",   "cost",    "autodiff",
                                         "models", "passes",  "plan",    "codegen", "kernels",
                                         "jit",    "dist",    "runtime", "compile", "measure",
                                         "api",    "profile", "report",  "studies", "cli"};

size_t place_of(const std::string& folder) {
  return static_cast<size_t>(std::ranges::find(kOrder, folder) - kOrder.begin());
}

const fs::path kRoot = fs::path(RIDGELINE_SOURCE_DIR) / "src";

std::vector<fs::path> sources_under(const fs::path& folder) {
  std::vector<fs::path> sources;
  for (const fs::directory_entry& file : fs::recursive_directory_iterator(folder)) {
    const std::string ending = file.path().extension();
    if (ending == ".cc" || ending == ".h") sources.push_back(file.path());
  }
  return sources;
}

TEST(Folders, IncludeOnlyThemselvesAndThoseBeforeThem) {
  const std::regex include("^\\s*#include \"([a-z]+)/");
  std::set<std::string> folders;
  size_t seen = 0;
  for (const fs::path& file : sources_under(kRoot)) {
    const std::string folder = *file.lexically_relative(kRoot).begin();
    folders.insert(folder);
    ASSERT_LT(place_of(folder), kOrder.size()) << folder << " is not in the list";
    std::ifstream text(file);
    for (std::string line; std::getline(text, line);) {
      std::smatch found;
      if (!std::regex_search(line, found, include)) continue;
      ++seen;
      const size_t place = place_of(found[1]);
      EXPECT_TRUE(place == kOrder.size() || place <= place_of(folder))
          << file.string() << ": " << line;
    }
  }
  EXPECT_EQ(folders.size(), kOrder.size());
  EXPECT_GT(seen, 500u);
}

// The linker takes one constructor for both of two classes of the same name, whichever comes first.
TEST(Folders, ShareNoNameOfAClass) {
  const std::regex named("^(?:struct|class) (\\w+)(?: final)?(?: : .*)? \\{"),
      space("^namespace ([\\w:]+) \\{");
  std::map<std::string, fs::path> defined_in;
  for (const fs::path& file : sources_under(kRoot)) {
    std::ifstream text(file);
    std::string inside;
    bool is_own = false;  // in an unnamed namespace
    for (std::string line; std::getline(text, line);) {
      std::smatch found;
      if (line == "namespace {" || line == "}  // namespace") is_own = line == "namespace {";
      if (std::regex_search(line, found, space)) inside = found[1];
      if (is_own || !std::regex_search(line, found, named)) continue;
      const auto [other, is_new] = defined_in.emplace(inside + "::" + found[1].str(), file);
      EXPECT_TRUE(is_new) << other->first << " is a class of " << other->second << " and of "
                          << file;
    }
  }
  EXPECT_GT(defined_in.size(), 500u);
}

TEST(Folders, AfterRuntimeNoneAsksWhichDeviceItHas) {
  const std::regex asks("dynamic_cast|kind\\s*[!=]=\\s*\"");
  size_t seen = 0;
  for (const char* folder : {"compile", "measure", "profile", "report", "studies", "cli"})
    for (const fs::path& file : sources_under(kRoot / folder)) {
      ++seen;
      std::ifstream stream(file);
      const std::string text(std::istreambuf_iterator<char>(stream), {});
      std::smatch found;
      EXPECT_FALSE(std::regex_search(text, found, asks))
          << file.string() << ":" << 1 + std::ranges::count(found.prefix().str(), '\n') << ": "
          << found.str() << "; put what is needed of a device into src/runtime/device.h";
    }
  EXPECT_GT(seen, 200u);
}

}  // namespace
}  // namespace ridgeline
