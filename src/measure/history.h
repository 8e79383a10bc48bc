// A database of named baselines, with every run ever saved under a name, and of noise floors.
//
//   History history("results/history.sqlite", Database::Open::create);
//   history.save("main", records);
//   ReadResult base = history.baseline("main");
#pragma once

#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/compare.h"
#include "measure/noise.h"
#include "measure/read_results.h"
#include "measure/record.h"
#include "measure/sqlite.h"

namespace ridgeline {

// One saved run of a baseline; a name may have several, and refers to the newest.
struct SavedRun {
  int64_t id = 0;
  std::string name;
  std::string saved_at;  // UTC
  std::string git_commit;
  int64_t rows = 0;
};

struct SavedRecord {
  SavedRun run;
  Record record;
};

// Throws a usage error unless the name has 1 to 100 printable ASCII characters.
void check_baseline_name(const std::string& name);

class History {
 public:
  // The file in a results directory.
  static std::filesystem::path file_in(const std::filesystem::path& results_dir);
  // Throws a usage error for a file that is not a history, or one of another version.
  History(const std::filesystem::path& file, Database::Open open);

  // Saves all records or none, under a name that check_baseline_name() accepts.
  SavedRun save(const std::string& name, std::span<const Record> records);
  // The newest run under `name`. Throws a usage error that lists the known names.
  ReadResult baseline(const std::string& name) const;
  std::vector<SavedRun> runs() const;  // oldest first
  // Returns the readable records of a run, and a problem for each unreadable row, counted from 1.
  ReadResult read(const SavedRun& run) const;

  void save_noise(const MeasuredNoise& noise);
  // The newest floor of this row on this machine; nullopt if none was measured.
  std::optional<NoiseFloor> noise(const Record& record, std::string_view phase) const;

 private:
  Database database_;
};

// A lookup for CompareOptions. The history must outlive it; null: no noise floors.
NoiseLookup noise_of(const History* history);

}  // namespace ridgeline
