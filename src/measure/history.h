// Named baselines with everything that was ever saved under their names, and the machine's noise.
//
//   History history("results/history.sqlite", Database::Open::create);
//   history.save("main", records);
//   std::vector<Record> base = history.baseline("main");
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

// One saving of a baseline; a name may have many, and the newest is what the name stands for.
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

// Throws a usage error: names are plain text of at most 100 characters.
void check_baseline_name(const std::string& name);

class History {
 public:
  // The file below a directory of results.
  static std::filesystem::path file_in(const std::filesystem::path& results_dir);
  // Throws a usage error for a file that is not a history, or one of another version.
  History(const std::filesystem::path& file, Database::Open open);

  // All records or none. Names are text without control characters, of at most 100 bytes.
  SavedRun save(const std::string& name, std::span<const Record> records);
  // The newest saved under `name`. Throws a usage error that lists the names there are.
  ReadResult baseline(const std::string& name) const;
  std::vector<SavedRun> runs() const;  // oldest first
  // What can be read of one, and the rows that cannot, counted from 1.
  ReadResult read(const SavedRun& run) const;

  void save_noise(const MeasuredNoise& noise);
  // Of this very row on this machine, the newest; empty: none was measured.
  std::optional<NoiseFloor> noise(const Record& record, std::string_view phase) const;

 private:
  Database database_;
};

// For CompareOptions: what the history holds. It must outlive the lookup; null: there is none.
NoiseLookup noise_of(const History* history);

}  // namespace ridgeline
