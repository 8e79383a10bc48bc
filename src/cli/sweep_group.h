// Sweeps that share one progress line, such as those of `ridgeline study`.
//
//   SweepGroup group;
//   group.expect([&] { run_every_study(); });   // run_sweep only notes the expected time of rows
//   run_every_study();                          // one line and one estimate for all
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
  ~SweepGroup();  // restores the previous group
  SweepGroup(const SweepGroup&) = delete;
  SweepGroup& operator=(const SweepGroup&) = delete;

  // The group of the current sweep; null: the sweep is alone.
  static SweepGroup* current();

  // Collects the expected times of `sweeps`. Ignores errors, which occur again when they run.
  void expect(const std::function<void()>& sweeps);
  bool is_expecting() const { return expecting_; }

  // For run_sweep: the expected times of its rows, by results file.
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

// Whether to stop; polled between samples. Also updates the progress line.
bool sweep_interrupted();
// Shows what the current row does; nothing between rows. hide_progress() hides the line until then.
void show_stage(const std::string& what);
void hide_progress();

}  // namespace ridgeline
