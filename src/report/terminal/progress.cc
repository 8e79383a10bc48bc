#include "report/terminal/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <iostream>
#include <string_view>

#include "base/clock.h"
#include "base/environment.h"
#include "base/printable.h"
#include "report/terminal/colour.h"
#include "report/terminal/table.h"

namespace ridgeline {
namespace {

constexpr std::string_view kEraseLine = "\r\033[K";
constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kPlain = "\033[0m";
constexpr double kBetweenTicksS = 1;
constexpr size_t kBarWidth = 10;
constexpr size_t kWideEnoughForABar = 60;

std::string bar(double share) {
  const auto done = static_cast<size_t>(share * kBarWidth);
  return std::string(done, '#') + std::string(kBarWidth - done, '.') + " ";
}

double up_to(double seconds, double step) {
  return std::ceil(seconds / step) * step;
}

}  // namespace

std::string rough_duration(double seconds) {
  constexpr double kMinute = 60, kHour = 3600;
  if (seconds <= 10) return fmt::format("{:.0f} s", std::max(1.0, std::ceil(seconds)));
  if (seconds <= kMinute) return fmt::format("{:.0f} s", up_to(seconds, 5));
  if (seconds <= kHour) return fmt::format("{:.0f} min", up_to(seconds, kMinute) / kMinute);
  const double minutes = up_to(seconds, 5 * kMinute) / kMinute;
  return fmt::format("{:.0f} h {:.0f} min", std::floor(minutes / 60), std::fmod(minutes, 60));
}

ProgressOptions terminal_progress() {
  const std::string terminal = environment("TERM");
  const bool can_rewrite = !terminal.empty() && terminal != "dumb";
  if (!isatty(STDERR_FILENO) || !can_rewrite) return {};
  return {.out = &std::cerr, .color = shows_colour(stderr), .width = terminal_width(STDERR_FILENO)};
}

Progress::Progress(ProgressOptions options)
    : left_(TimeLeft::Unit::seconds), options_(std::move(options)) {
  if (!options_.now_s) options_.now_s = monotonic_s;
}

Progress::Progress(std::vector<double> weights, ProgressOptions options)
    : left_(TimeLeft::Unit::any), options_(std::move(options)) {
  if (!options_.now_s) options_.now_s = monotonic_s;
  left_.add_part(std::move(weights));
}

Progress::~Progress() {
  clear();
}

size_t Progress::add_part(std::vector<double> expected_s) {
  return left_.add_part(std::move(expected_s));
}

void Progress::replace_part(size_t part, std::vector<double> expected_s) {
  left_.replace_part(part, std::move(expected_s));
}

void Progress::begin(size_t index, const std::string& label) {
  index_ = index;
  label_ = label;
  stage_.clear();
  begun_s_ = options_.now_s();
  left_.begin({part_, index}, begun_s_);
  show();
}

void Progress::stage(const std::string& what) {
  if (label_.empty()) return;
  stage_ = what;
  show();
}

void Progress::tick() {
  if (shown_ && options_.now_s() - shown_at_s_ >= kBetweenTicksS) show();
}

void Progress::show() {
  if (!options_.out) return;
  const double now_s = options_.now_s();
  const std::optional<double> left = left_.seconds(now_s);
  const std::string head = fmt::format("[{}/{}] ", left_.number({part_, index_}), left_.steps());
  const bool has_bar = left && options_.width >= kWideEnoughForABar;
  std::string tail = has_bar ? " ... " + bar(left_.share_done(now_s)) : " ... ";
  tail += left ? fmt::format("{} left", rough_duration(*left)) : "";
  tail.erase(tail.find_last_not_of(' ') + 1);
  const std::string stage =
      stage_.empty() ? "" : fmt::format(": {}, {:.1f} s", stage_, now_s - begun_s_);
  const auto room_beside = [&](size_t taken) {
    return options_.width > taken ? options_.width - taken : 0;
  };
  // One column stays free, as some terminals wrap a full line. The label is cut before the stage.
  const size_t fixed = head.size() + tail.size() + 1;
  const std::string now = printable(stage, room_beside(fixed));
  *options_.out << kEraseLine << head << printable(label_, room_beside(fixed + now.size())) << now
                << (options_.color ? kDim : "") << tail << (options_.color ? kPlain : "")
                << std::flush;
  shown_ = true;
  shown_at_s_ = now_s;
}

void Progress::skip(size_t index) {
  left_.skip({part_, index});
}

void Progress::clear() {
  left_.end(options_.now_s());
  label_.clear();
  hide();
}

void Progress::hide() {
  if (shown_) *options_.out << kEraseLine << std::flush;
  shown_ = false;
}

}  // namespace ridgeline
