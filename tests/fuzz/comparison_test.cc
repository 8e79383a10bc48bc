// Both sides of `ridgeline compare`, and its gates.
#include "fuzz/fuzz.h"
#include "fuzz/in_process.h"
#include "fuzz/seed_records.h"

namespace ridgeline {
namespace {

constexpr std::string_view kBetween = "\n====\n";  // the sides of one input

std::vector<std::string> comparison_seeds() {
  std::vector<Record> base = seed_records(), slower = base;
  for (Record& record : slower) {
    for (Series& series : record.series)
      for (double& sample : series.samples_ms) sample *= 1.25;
    record.time = "2026-02-01T00:00:00Z";
    record.build.git_commit = "fedcba9";
  }
  std::vector<std::string> all;
  for (size_t i = 0; i < base.size(); i += 3) {
    const size_t count = std::min<size_t>(3, base.size() - i);
    const auto some = [&](const std::vector<Record>& records) {
      return lines_of({records.begin() + static_cast<std::ptrdiff_t>(i),
                       records.begin() + static_cast<std::ptrdiff_t>(i + count)});
    };
    all.push_back(some(base) + std::string(kBetween) + some(slower));
  }
  return all;
}

TEST(SlowFuzz, Comparison) {
  const TempDir folder;
  std::vector<std::string> words = record_words();
  words.emplace_back(kBetween);
  fuzz({.name = "Comparison",
        .seeds = comparison_seeds(),
        .words = words,
        .run =
            [&](const std::string& input) {
              const size_t middle = input.find(kBetween);
              write_text(folder / "base.jsonl", input.substr(0, middle));
              write_text(folder / "new.jsonl",
                         middle == input.npos ? input : input.substr(middle + kBetween.size()));
              run_command(
                  add_compare_command,
                  {"compare", (folder / "base.jsonl").string(), (folder / "new.jsonl").string(),
                   "--force", "--gate", "slower:3%", "--gate", "geomean:1%", "--gate", "memory:5%",
                   "--results-dir", folder.path().string()});
            },
        .inputs = 1000});
}

}  // namespace
}  // namespace ridgeline
