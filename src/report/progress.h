// A progress line on stderr for people who watch; nothing when the output goes elsewhere.
//
//   Progress progress(weights, terminal_progress());
//   progress.begin(2, "naive S=4096 d=64");   // [3/20] naive S=4096 d=64 ... about 40 s left
//   progress.stage("plan");                   // [3/20] naive S=4096 d=64: plan, 0.2 s ... about
#pragma once

#include <functional>
#include <iosfwd>
#include <string>
#include <vector>

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
  // One weight per step, in any unit of expected time (FLOPs will do): the estimate of the time
  // left rests on the share of them that is done.
  Progress(std::vector<double> weights, ProgressOptions options);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Step `index` (from 0) starts; those before it are done. Steps passed over by --resume are
  // declared with `skip`, so that they count as neither time spent nor time left.
  void begin(size_t index, const std::string& label);
  void skip(size_t index);

  // What the step that was begun last is at, with the time since it began. The line is written then
  // and not again: a clock that ticked beside it would disturb what is measured.
  void stage(const std::string& what);

  // Takes the line away, so that other output can be written; the next `begin` brings it back.
  void clear();

 private:
  void show(const std::string& stage);
  std::string time_left(size_t index) const;

  std::vector<double> weights_;
  ProgressOptions options_;
  double start_s_;
  size_t index_ = 0;  // of the step that was begun last,
  std::string label_;
  double begun_s_ = 0;
  bool shown_ = false;
};

}  // namespace ridgeline
