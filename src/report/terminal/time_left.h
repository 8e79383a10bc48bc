// Estimates the time that the remaining steps take, from expected times and the steps that ended.
//
//   TimeLeft left(TimeLeft::Unit::seconds);
//   left.add_part({1, 1, 4});                  // expected, before anything runs
//   left.begin({.part = 0, .step = 0}, now_s);
//   left.seconds(now_s);                       // left, of all parts
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ridgeline {

class TimeLeft {
 public:
  // The unit of expected times. Seconds are trusted to some degree; any other unit, such as FLOPs,
  // is scaled by the times of ended steps alone.
  enum class Unit { seconds, any };
  explicit TimeLeft(Unit unit) : unit_(unit) {}

  struct Place {
    size_t part = 0, step = 0;
  };

  // Adds steps of one kind, such as the rows of one study, whose expected times are off by the same
  // factor. Returns the number of the part.
  size_t add_part(std::vector<double> expected);
  // Replaces the steps of a part, including those that have ended.
  void replace_part(size_t part, std::vector<double> expected);

  // Ends the running step and begins this one; does nothing if this one is running already.
  void begin(Place place, double now_s);
  void end(double now_s);  // ends the running step
  void skip(Place place);  // counts the step as ended, in no time

  size_t steps() const;
  size_t number(Place place) const;  // among all steps, from 1

  // Returns the time left, or nullopt before a step has ended. Follows the estimate without jumps.
  std::optional<double> seconds(double now_s);
  // Returns the share of the whole that is done by the estimate, from 0 to 1; it never decreases.
  double share_done(double now_s);

 private:
  struct Step {
    double expected = 0;
    std::optional<double> took_s = {};
  };
  bool is_running(Place place) const;
  std::optional<double> learnt(double now_s) const;

  Unit unit_;
  std::vector<std::vector<Step>> parts_;
  std::optional<Place> running_;
  double begun_s_ = 0, first_s_ = 0;
  bool has_begun_ = false;
  std::optional<double> shown_s_;
  double shown_at_s_ = 0;
  double share_ = 0;
};

}  // namespace ridgeline
