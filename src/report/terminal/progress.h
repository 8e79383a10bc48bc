// A progress line on stderr, shown only if that is a terminal.
//
//   Progress progress(terminal_progress());
//   progress.enter(progress.add_part(expected_s));
//   progress.begin(2, "naive S=4096");  // [3/20] naive S=4096 ... ##........ 40 s left
//   progress.stage("plan");  // [3/20] naive S=4096: plan, 0.2 s ... ##........ 40 s left
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "report/terminal/time_left.h"

namespace ridgeline {

using StageHook = std::function<void(const std::string&)>;  // called when a stage begins

struct ProgressOptions {
  std::ostream* out = nullptr;  // null: show nothing
  bool color = false;
  size_t width = 80;
  std::function<double()> now_s = {};  // empty: a monotonic clock
};

// Writes to stderr if that is a terminal that can rewrite a line; in colour unless NO_COLOR is set.
ProgressOptions terminal_progress();

class Progress {
 public:
  // For parts that are added later, with expected times in seconds.
  explicit Progress(ProgressOptions options);
  // For one part, with expected times in any unit, such as FLOPs.
  Progress(std::vector<double> weights, ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // All parts share one line. The estimate covers only the parts added so far.
  size_t add_part(std::vector<double> expected_s);
  void replace_part(size_t part, std::vector<double> expected_s);
  void enter(size_t part) { part_ = part; }  // later steps are steps of this part

  // Step `index` (from 0) begins; those before it are done. skip() marks a step that --resume
  // passes over: it counts neither as time spent nor as time left.
  void begin(size_t index, const std::string& label);
  void skip(size_t index);

  // Shows what the current step is doing, with the time since it began; nothing between steps.
  void stage(const std::string& what);

  // Updates the line, at most once a second. Called between samples, because a timer thread would
  // disturb the measurement.
  void tick();

  // Erases the line while the step continues; the next stage() shows it again.
  void hide();
  // Ends the step and erases the line, so that other output can be written; the next begin() shows
  // it again.
  void clear();

 private:
  void show();

  TimeLeft left_;
  ProgressOptions options_;
  size_t part_ = 0;
  size_t index_ = 0;  // of the step that began last
  std::string label_;
  std::string stage_;
  double begun_s_ = 0;
  double shown_at_s_ = 0;
  bool shown_ = false;
};

// Rounds up to the precision of an estimate: "5 s", "40 s", "3 min", "1 h 20 min".
std::string rough_duration(double seconds);

}  // namespace ridgeline
