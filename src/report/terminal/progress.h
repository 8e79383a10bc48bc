// A progress line on stderr for people who watch; nothing when the output goes elsewhere.
//
//   Progress progress(terminal_progress());
//   progress.enter(progress.add_part(expected_s));
//   progress.begin(2, "naive S=4096");   // [3/20] naive S=4096 ... ##........ 40 s left
//   progress.stage("plan");              // [3/20] naive S=4096: plan, 0.2 s ... ##........ 40 s
//   left
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

#include "report/terminal/time_left.h"

namespace ridgeline {

using StageHook = std::function<void(const std::string&)>;  // told what begins

struct ProgressOptions {
  std::ostream* out = nullptr;  // null: show nothing
  bool color = false;
  size_t width = 80;
  std::function<double()> now_s = {};  // empty: a monotonic clock
};

// Shown on stderr only if that is a terminal that can rewrite a line; colour unless NO_COLOR is
// set.
ProgressOptions terminal_progress();

class Progress {
 public:
  // Of parts that are added, with what is expected in seconds.
  explicit Progress(ProgressOptions options);
  // Of one part, with weights in any unit of expected time (FLOPs will do).
  Progress(std::vector<double> weights, ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // All parts make one line; those that are known before the first step begins make it a good one.
  size_t add_part(std::vector<double> expected_s);
  void replace_part(size_t part, std::vector<double> expected_s);
  void enter(size_t part) { part_ = part; }  // steps are counted in it from here on

  // Step `index` (from 0) starts; those before it are done. Steps passed over by --resume are
  // declared with `skip`, so that they count as neither time spent nor time left.
  void begin(size_t index, const std::string& label);
  void skip(size_t index);

  // What the step that was begun last is at, with the time since it began.
  void stage(const std::string& what);

  // Brings the line up to date, at most once a second; for the pauses between samples, as a clock
  // that ticked by itself would disturb what is measured.
  void tick();

  // Takes the line away while the step goes on; the next stage brings it back.
  void hide();
  // Takes the line away, so that other output can be written; the next `begin` brings it back. No
  // step is under way after it.
  void clear();

 private:
  void show();

  TimeLeft left_;
  ProgressOptions options_;
  size_t part_ = 0;
  size_t index_ = 0;  // of the step that was begun last,
  std::string label_;
  std::string stage_;
  double begun_s_ = 0;
  double shown_at_s_ = 0;
  bool shown_ = false;
};

// "5 s", "40 s", "3 min", "1 h 20 min": as exact as an estimate is.
std::string rough_duration(double seconds);

}  // namespace ridgeline
