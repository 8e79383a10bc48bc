// An estimate of the time that many steps still take, which learns from those that have ended.
//
//   TimeLeft left(TimeLeft::Unit::seconds);
//   left.add_part({1, 1, 4});                  // expected, before anything runs
//   left.begin({.part = 0, .step = 0}, now_s);
//   left.seconds(now_s);                       // of all parts
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace ridgeline {

class TimeLeft {
 public:
  // What is expected is in seconds, and then trusted until steps end; or in a unit of its own, such
  // as FLOPs, and then nothing is known before the first step has ended.
  enum class Unit { seconds, any };
  explicit TimeLeft(Unit unit) : unit_(unit) {}

  struct Place {
    size_t part = 0, step = 0;
  };

  // Steps of one kind, such as the rows of one study: they are wrong by the same factor.
  size_t add_part(std::vector<double> expected);
  // In the place of what was said before; steps that have ended are forgotten.
  void replace_part(size_t part, std::vector<double> expected);

  // The step that was under way has ended, and this one begins; the same one goes on.
  void begin(Place place, double now_s);
  void end(double now_s);  // nothing is under way now
  void skip(Place place);  // it takes no time

  size_t steps() const;
  size_t number(Place place) const;  // among all steps, from 1

  // Empty: not known yet. Moves towards what was learnt without jumps.
  std::optional<double> seconds(double now_s);
  // Of the whole, by the estimate; from 0 to 1, never going back.
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
