// Sweeps that share one progress line, such as all that `ridgeline study` runs.
//
//   SweepGroup group;
//   group.expect([&] { run_every_study(); });   // run_sweep only says how long its rows may take
//   run_every_study();                          // one line and one estimate over all of them
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <vector>

#include "report/terminal/progress.h"

namespace ridgeline {

class SweepGroup {
 public:
  explicit SweepGroup(ProgressOptions options = terminal_progress());
  ~SweepGroup();  // the group before is the current one again
  SweepGroup(const SweepGroup&) = delete;
  SweepGroup& operator=(const SweepGroup&) = delete;

  // The group that a sweep belongs to; null: it is one of its own.
  static SweepGroup* current();

  // Whatever `sweeps` throws or gives is of no interest here: it comes again when they run.
  void expect(const std::function<void()>& sweeps);
  bool is_expecting() const { return expecting_; }

  // For run_sweep: what it expects of its rows, by its results file.
  void note(const std::filesystem::path& records, const std::vector<double>& expected_s);
  Progress& enter(const std::filesystem::path& records, const std::vector<double>& expected_s);
  Progress& progress() { return progress_; }

 private:
  struct Part {
    size_t number = 0, rows = 0;
  };

  SweepGroup* before_;
  Progress progress_;
  std::map<std::filesystem::path, Part> parts_;
  bool expecting_ = false;
};

// Asked between samples: whether to stop. Brings the progress line up to date besides.
bool sweep_interrupted();

}  // namespace ridgeline
