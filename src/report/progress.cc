#include "report/progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <iostream>
#include <numeric>
#include <string_view>

#include "base/clock.h"
#include "base/environment.h"
#include "base/printable.h"
#include "base/units.h"
#include "report/colour.h"

namespace ridgeline {
namespace {

constexpr std::string_view kEraseLine = "\r\033[K";
constexpr std::string_view kDim = "\033[2m";
constexpr std::string_view kPlain = "\033[0m";

}  // namespace

ProgressOptions terminal_progress() {
  const std::string terminal = environment("TERM");
  const bool can_rewrite = !terminal.empty() && terminal != "dumb";
  if (!isatty(STDERR_FILENO) || !can_rewrite) return {};
  ProgressOptions options{.out = &std::cerr, .color = shows_colour(stderr)};
  winsize size = {};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) options.width = size.ws_col;
  return options;
}

Progress::Progress(std::vector<double> weights, ProgressOptions options)
    : weights_(std::move(weights)), options_(std::move(options)) {
  if (!options_.now_s) options_.now_s = monotonic_s;
  start_s_ = options_.now_s();
}

Progress::~Progress() {
  clear();
}

void Progress::begin(size_t index, const std::string& label) {
  index_ = index;
  label_ = label;
  begun_s_ = options_.now_s();
  show("");
}

void Progress::stage(const std::string& what) {
  show(fmt::format(": {}, {:.1f} s", what, options_.now_s() - begun_s_));
}

void Progress::show(const std::string& stage) {
  if (!options_.out) return;
  const std::string left = time_left(index_);
  const std::string head = fmt::format("[{}/{}] ", index_ + 1, weights_.size());
  const std::string tail = left.empty() ? " ..." : " ... " + left;
  const auto room_beside = [&](size_t taken) {
    return options_.width > taken ? options_.width - taken : 0;
  };
  // One column stays free: a full line makes some terminals wrap. What changes is seen; the label
  // has the rest.
  const size_t fixed = head.size() + tail.size() + 1;
  const std::string now = printable(stage, room_beside(fixed));
  *options_.out << kEraseLine << head << printable(label_, room_beside(fixed + now.size())) << now
                << (options_.color ? kDim : "") << tail << (options_.color ? kPlain : "")
                << std::flush;
  shown_ = true;
}

void Progress::skip(size_t index) {
  weights_.at(index) = 0;
}

void Progress::clear() {
  if (shown_) *options_.out << kEraseLine << std::flush;
  shown_ = false;
}

std::string Progress::time_left(size_t index) const {
  const auto here = weights_.begin() + static_cast<std::ptrdiff_t>(index);
  const double done = std::accumulate(weights_.begin(), here, 0.0);
  const double to_do = std::accumulate(here, weights_.end(), 0.0);
  if (!(done > 0)) return "";
  const double seconds = (options_.now_s() - start_s_) * to_do / done;
  if (!std::isfinite(seconds)) return "";
  return fmt::format("about {} left", format_seconds(std::ceil(seconds)));
}

}  // namespace ridgeline
