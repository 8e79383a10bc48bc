#include "dist/local_ranks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "dist/activity.h"
#include "dist/world.h"

namespace ridgeline {
namespace {

constexpr double kLookS = 0.02;    // polling interval for ranks that have ended
constexpr double kOthersS = 0.25;  // time to find the rank that made the others end
constexpr size_t kShownErrors = 400;

std::filesystem::path activity_file(const std::filesystem::path& folder, int rank) {
  return folder / fmt::format("rank{}", rank);
}

std::string activity_of(const std::filesystem::path& folder, int rank) {
  const std::string words = activity_in(activity_file(folder, rank));
  return words.empty() ? "its start" : words;
}

}  // namespace

LocalRanks::LocalRanks(LocalRanksOptions options) : options_(std::move(options)) {
  for (int rank = 0; rank < options_.ranks; ++rank) {
    ChildProcess::Options child{.environment = options_.environment};
    child.environment.insert({
        {"RIDGELINE_RANK", fmt::format("{}", rank)},
        {"RIDGELINE_WORLD_SIZE", fmt::format("{}", options_.ranks)},
        {"RIDGELINE_LOCAL_RANK", fmt::format("{}", rank)},
        {"RIDGELINE_LOCAL_WORLD_SIZE", fmt::format("{}", options_.ranks)},
        {"RIDGELINE_ADDRESS", "127.0.0.1"},
        {"RIDGELINE_PORT_FILE", (folder_.path() / "port").string()},
        {"RIDGELINE_RUN_ID", folder_.path().filename().string()},
        {kActivityVariable, activity_file(folder_.path(), rank).string()},
        // Clears the variables of an enclosing launcher.
        {"MASTER_ADDR", ""},
        {kPortVariable, ""},
    });
    ranks_.push_back(std::make_unique<ChildProcess>(options_.words, child));
  }
}

LocalRanks::~LocalRanks() = default;

std::vector<int> LocalRanks::processes() const {
  std::vector<int> all;
  for (const auto& rank : ranks_) all.push_back(rank->id());
  return all;
}

void LocalRanks::write_line(std::string_view line) {
  if (!ranks_[0]->write_line(line)) report_end();
}

std::optional<std::string> LocalRanks::read_line(const ChildProcess::WaitLimits& limits) {
  const double deadline = monotonic_s() + limits.seconds;
  while (true) {
    const auto reply = ranks_[0]->read_line(
        {.seconds = kLookS, .interrupted = limits.interrupted, .most_bytes = limits.most_bytes});
    using Outcome = ChildProcess::Outcome;
    if (reply.outcome == Outcome::line) return reply.line;
    if (reply.outcome == Outcome::interrupted) {
      ranks_.clear();
      return std::nullopt;
    }
    if (reply.outcome == Outcome::too_long)
      throw Error(
          ErrorKind::environment,
          fmt::format("rank 0 has written a line of more than {} bytes", limits.most_bytes));
    for (size_t rank = 1; rank < ranks_.size(); ++rank)  // discards the output of other ranks
      while (ranks_[rank]->read_line({.seconds = 0}).outcome == Outcome::line) continue;
    if (std::ranges::any_of(ranks_, [](const auto& each) { return each->has_ended(); }))
      report_end();
    if (monotonic_s() > deadline) {
      std::string doing;
      for (int rank = 0; rank < options_.ranks; ++rank)
        doing += fmt::format("{}rank {} is at: {}", rank == 0 ? "" : "; ", rank,
                             activity_of(folder_.path(), rank));
      ranks_.clear();
      throw Error(ErrorKind::environment,
                  fmt::format("rank 0 has not answered within {:g} s; {}", limits.seconds, doing));
    }
  }
}

// Reports the rank that ended first. The others exit with code 4 when they notice its end, so the
// culprit is a rank with another exit status if there is one.
void LocalRanks::report_end() {
  const double deadline = monotonic_s() + kOthersS;
  size_t culprit = ranks_.size();
  std::string how;
  while (culprit == ranks_.size()) {
    const bool is_last_look = monotonic_s() > deadline;
    for (size_t rank = 0; rank < ranks_.size() && culprit == ranks_.size(); ++rank) {
      if (!ranks_[rank]->has_ended()) continue;
      how = ranks_[rank]->end(0);
      if (how != "exit code 4" || is_last_look) culprit = rank;
    }
    if (is_last_look) break;
    if (culprit == ranks_.size())
      std::this_thread::sleep_for(std::chrono::duration<double>(kLookS));
  }
  if (culprit == ranks_.size()) {  // rank 0 does not read its input, but no rank has ended
    culprit = 0;
    how = ranks_[0]->end(0);
  }
  const std::string at = activity_of(folder_.path(), static_cast<int>(culprit));
  std::string said = ranks_[culprit]->last_errors();
  while (!said.empty() && said.back() == '\n') said.pop_back();
  ranks_.clear();
  throw Error(
      ErrorKind::environment,
      fmt::format("rank {} of {} ended with {} while it was at: {}{}", culprit, options_.ranks, how,
                  at, said.empty() ? "" : "; it said: " + printable(said, kShownErrors)),
      "the other ranks have been ended");
}

}  // namespace ridgeline
