#include "measure/disturbance.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/clock.h"
#include "base/processors.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr double kQuietShare = 0.05;  // of the processors
// The kernel counts in ticks of 10 ms: a window of a second resolves 5 % of a processor, a quarter
// of a second suffices to detect another running process.
constexpr double kWindowS = 1, kShortestWindowS = 0.25;

double ticks_per_second() {
  return static_cast<double>(sysconf(_SC_CLK_TCK));
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

// Returns user and system time of a running process in ticks, or 0 if it has ended.
double ticks_of(const fs::path& stat) {
  std::ifstream file(stat);
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // the name may contain spaces and parentheses
  if (name_end == text.npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string skipped;
  for (int field = 3; field < 14; ++field) fields >> skipped;
  double user = 0, system = 0;
  fields >> user >> system;
  return user + system;
}

// Returns the ticks of all running descendants of a process, such as ranks under an MPI launcher.
double ticks_below(const fs::path& root, const std::string& process) {
  double total = 0;
  std::error_code gone;
  for (const auto& task : fs::directory_iterator(root / "proc" / process / "task", gone)) {
    std::ifstream children(task.path() / "children");
    for (std::string child; children >> child;)
      total += ticks_of(root / "proc" / child / "stat") + ticks_below(root, child);
  }
  return total;
}

// Processor time of this process and of its ended and running children (workers of peers, ranks).
double own_seconds(const fs::path& root) {
  double total = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage usage{};
    getrusage(who, &usage);
    total += seconds(usage.ru_utime) + seconds(usage.ru_stime);
  }
  return total + ticks_below(root, "self") / ticks_per_second();
}

std::optional<DisturbanceWatch::Snapshot> take_snapshot(const fs::path& root) {
  std::ifstream file(root / "proc/stat");
  const std::vector<int> allowed = allowed_processors();
  DisturbanceWatch::Snapshot now{.time_s = monotonic_s()};
  for (std::string line; std::getline(file, line) && line.starts_with("cpu");) {
    std::istringstream fields(line.substr(3));
    int processor = -1;
    if (line[3] == ' ' || !(fields >> processor)) continue;  // the total of all processors
    if (std::find(allowed.begin(), allowed.end(), processor) == allowed.end()) continue;
    double user = 0, nice = 0, system = 0, idle = 0, io = 0, irq = 0, soft_irq = 0, stolen = 0;
    fields >> user >> nice >> system >> idle >> io >> irq >> soft_irq >> stolen;
    now.busy_s += (user + nice + system + irq + soft_irq) / ticks_per_second();
    now.stolen_s += stolen / ticks_per_second();
    ++now.processors;
  }
  if (now.processors == 0) return std::nullopt;
  now.own_s = own_seconds(root);
  return now;
}

}  // namespace

bool Disturbance::quiet() const {
  const double tick = processors / ticks_per_second();
  return (other_cores + stolen_cores) * window_s <= kQuietShare * processors * window_s + tick;
}

std::string disturbance_text(const Disturbance& disturbance) {
  if (disturbance.quiet()) return {};
  const bool stolen = disturbance.stolen_cores > disturbance.other_cores;
  return fmt::format(
      "{} {:.2g} of {} processors", stolen ? "other virtual machines took" : "other processes used",
      std::max(disturbance.stolen_cores, disturbance.other_cores), disturbance.processors);
}

DisturbanceWatch::DisturbanceWatch(fs::path root) : root_(std::move(root)) {
  if (const auto now = take_snapshot(root_)) snapshots_.push_back(*now);
}

std::optional<Disturbance> DisturbanceWatch::row_done() {
  if (snapshots_.empty()) return std::nullopt;
  const double short_s = kShortestWindowS - (monotonic_s() - snapshots_.front().time_s);
  if (short_s > 0) std::this_thread::sleep_for(std::chrono::duration<double>(short_s));
  const auto now = take_snapshot(root_);
  if (!now) return std::nullopt;
  // Drop snapshots older than the latest one that makes the window long enough.
  while (snapshots_.size() > 1 && now->time_s - snapshots_[1].time_s >= kWindowS)
    snapshots_.erase(snapshots_.begin());
  const Snapshot& begin = snapshots_.front();
  const double window_s = std::max(now->time_s - begin.time_s, 1e-9);
  const double own_s = now->own_s - begin.own_s;
  const Disturbance found{
      .window_s = window_s,
      .processors = now->processors,
      .other_cores = std::max(0.0, (now->busy_s - begin.busy_s - own_s) / window_s),
      .stolen_cores = std::max(0.0, (now->stolen_s - begin.stolen_s) / window_s)};
  snapshots_.push_back(*now);
  return found;
}

}  // namespace ridgeline
