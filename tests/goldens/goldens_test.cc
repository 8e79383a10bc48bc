// What the workloads of workloads.h launch, and the texts of their generated kernels, held by
// hashes in launches.txt: a change of structure leaves them as they are, and a change of what runs
// shows here by name.
//
//   RIDGELINE_WRITE_GOLDENS=1 build/release/tests/goldens_tests      # accepts what runs now
//   RIDGELINE_GOLDEN_LISTS=folder build/release/tests/goldens_tests  # every launch, for a diff
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "base/environment.h"
#include "base/file_io.h"
#include "goldens/workloads.h"

namespace ridgeline::testing {
namespace {

const std::filesystem::path kFile =
    std::filesystem::path(RIDGELINE_SOURCE_DIR) / "tests/goldens/launches.txt";
constexpr const char* kHowToAccept =
    "If this is meant, accept it:  RIDGELINE_WRITE_GOLDENS=1 build/release/tests/goldens_tests\n"
    "To see every launch, write lists before and after the change and compare them:  "
    "RIDGELINE_GOLDEN_LISTS=folder build/release/tests/goldens_tests\n";

// What the file has of one workload.
struct Golden {
  std::string kernels;    // hash of what is launched, in order
  std::string arguments;  // hash of what it is passed: sizes, strides, addresses
  std::string counts;     // "matmul 24, generated 30"
  bool operator==(const Golden&) const = default;
};

struct Goldens {
  std::map<std::string, Golden> workloads;
  std::set<std::string> texts;  // "entry hash"
};

std::string counts_of(const std::vector<RecordedLaunch>& launches) {
  std::map<std::string, int> counts;
  for (const RecordedLaunch& launch : launches) ++counts[launch.name];
  std::vector<std::string> parts;
  for (const auto& [name, count] : counts) parts.push_back(fmt::format("{} {}", name, count));
  return fmt::format("{}", fmt::join(parts, ", "));
}

void write_list(const std::string& folder, const std::string& name,
                const std::vector<RecordedLaunch>& launches) {
  std::string text;
  for (const RecordedLaunch& each : launches)
    text += fmt::format("{}\n  {}\n  {}\n", each.name, each.kernel, each.arguments);
  std::string file = name + ".txt";
  std::replace(file.begin(), file.end(), ' ', '_');
  std::filesystem::create_directories(folder);
  write_file_atomically(std::filesystem::path(folder) / file, text);
}

Goldens record_all() {
  const std::string folder = environment("RIDGELINE_GOLDEN_LISTS");
  Goldens found;
  for (const GoldenWorkload& workload : golden_workloads()) {
    RecordingDevice device(workload.target, workload.epilogues_win);
    workload.run(device);
    std::string kernels, arguments;
    for (const RecordedLaunch& launch : device.launches()) {
      kernels += launch.name + '\n' + launch.kernel + '\n';
      arguments += launch.arguments + '\n';
    }
    EXPECT_FALSE(device.launches().empty()) << workload.name << " launches nothing";
    const bool is_new =
        found.workloads
            .emplace(workload.name, Golden{short_hash(kernels), short_hash(arguments),
                                           counts_of(device.launches())})
            .second;
    EXPECT_TRUE(is_new) << "two workloads are called " << workload.name;
    found.texts.insert(device.texts().begin(), device.texts().end());
    if (!folder.empty()) write_list(folder, workload.name, device.launches());
  }
  return found;
}

std::string to_text(const Goldens& goldens) {
  std::string text =
      "# What workloads launch: kernels, arguments (hashes), counts. Written by goldens_test.cc.\n";
  for (const auto& [name, golden] : goldens.workloads)
    text += fmt::format("{}: {} {} {}\n", name, golden.kernels, golden.arguments, golden.counts);
  text += "# The texts of generated kernels.\n";
  for (const std::string& entry : goldens.texts) text += entry + '\n';
  return text;
}

Goldens read_goldens() {
  Goldens goldens;
  std::ifstream lines(kFile);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) continue;
    const size_t colon = line.find(": ");
    if (colon == std::string::npos) {
      goldens.texts.insert(line);
      continue;
    }
    Golden golden;
    std::istringstream rest(line.substr(colon + 2));
    rest >> golden.kernels >> golden.arguments >> std::ws;
    std::getline(rest, golden.counts);
    goldens.workloads[line.substr(0, colon)] = golden;
  }
  return goldens;
}

std::string difference(const std::string& name, const Golden& held, const Golden& now) {
  std::string text = name + "\n";
  if (held.kernels != now.kernels)
    text += fmt::format("  kernels {} became {}\n", held.kernels, now.kernels);
  if (held.arguments != now.arguments)
    text += fmt::format("  arguments {} became {}\n", held.arguments, now.arguments);
  if (held.counts != now.counts)
    text += fmt::format("  {}\n  became {}\n", held.counts, now.counts);
  return text;
}

// Every difference, or nothing.
std::string differences(const Goldens& held, const Goldens& now) {
  std::string text;
  for (const auto& [name, golden] : now.workloads) {
    const auto found = held.workloads.find(name);
    if (found == held.workloads.end())
      text += name + "\n  is new\n";
    else if (!(found->second == golden))
      text += difference(name, found->second, golden);
  }
  for (const auto& [name, golden] : held.workloads)
    if (!now.workloads.contains(name)) text += name + "\n  is gone\n";
  for (const std::string& entry : now.texts)
    if (!held.texts.contains(entry)) text += fmt::format("text {} is new\n", entry);
  for (const std::string& entry : held.texts)
    if (!now.texts.contains(entry)) text += fmt::format("text {} is gone\n", entry);
  return text;
}

TEST(Goldens, LaunchesAndGeneratedTextsAreAsTheyWere) {
  const Goldens now = record_all();
  EXPECT_GE(now.workloads.size(), 60u);
  if (!environment("RIDGELINE_WRITE_GOLDENS").empty()) {
    write_file_atomically(kFile, to_text(now));
    GTEST_SKIP() << "wrote " << kFile;
  }
  const std::string changed = differences(read_goldens(), now);
  EXPECT_TRUE(changed.empty()) << changed << kHowToAccept;
}

TEST(Goldens, RecordingTwiceGivesTheSame) {
  EXPECT_EQ(differences(record_all(), record_all()), "");
}

}  // namespace
}  // namespace ridgeline::testing
