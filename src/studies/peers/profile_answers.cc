// Parses a worker's answers about the steps that it has profiled into a Profile.
#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/printable.h"
#include "studies/peers/answers.h"

namespace ridgeline {
namespace {

// Limits that keep the sums over all pieces within 64 bits.
constexpr size_t kMostPieces = 2'000'000;
constexpr int64_t kLongestNs = 1'000'000'000'000, kLatestNs = 1000 * kLongestNs;
constexpr const char* kPeerPhases[] = {"forward", "backward", "optimizer"};
constexpr DeviceWork::Kind kKinds[] = {DeviceWork::Kind::kernel, DeviceWork::Kind::copy,
                                       DeviceWork::Kind::fill};

struct WholeRange {
  int64_t least, most;
};

int64_t whole(const Json& value, WholeRange range, const char* what) {
  if (value.is_number_integer()) {
    const auto near = value.get<double>();
    if (near >= static_cast<double>(range.least) && near <= static_cast<double>(range.most))
      return value.get<int64_t>();
  }
  throw unexpected_answer(what, value,
                          fmt::format("a whole number from {} to {}", range.least, range.most));
}

const Json& expected_member(const Json& object, const char* key) {
  const Json* found = answer_member(object, key);
  if (found) return *found;
  throw Error(ErrorKind::environment, fmt::format("answered without '{}'", key));
}

const Json& list_in(const Json& object, const char* key) {
  const Json& list = expected_member(object, key);
  if (!list.is_array()) throw unexpected_answer(fmt::format("'{}'", key), list, "a list");
  return list;
}

const Json& row_of(const Json& row, size_t columns, const char* what) {
  if (!row.is_array() || row.size() != columns)
    throw unexpected_answer(what, row, fmt::format("{} whole numbers", columns));
  return row;
}

double ms_in(const Json& object, const char* key) {
  const Json* value = answer_member(object, key);
  if (value == nullptr) return 0;
  if (!is_answered_time(*value))
    throw unexpected_answer(fmt::format("'{}'", key), *value, "a time in milliseconds");
  return value->get<double>();
}

// The names of a step, by number.
class NameList {
 public:
  explicit NameList(const Json& list) : list_(list) {
    for (const Json& name : list)
      if (!name.is_string()) throw unexpected_answer("a name", name, "text");
  }
  const std::string& at(const Json& number) const {
    const auto last = static_cast<int64_t>(list_.size()) - 1;
    return list_[static_cast<size_t>(whole(number, {0, last}, "the number of a name"))].text();
  }

 private:
  const Json& list_;
};

// Reads the host's calls that start work. On a CPU there are none: work is its own call.
void read_calls(const Json& list, const NameList& names, uint32_t step, Profile& profile) {
  for (const Json& call : list) {
    row_of(call, 3, "a call");
    const int64_t begin = whole(call[1], {0, kLatestNs}, "the begin of a call");
    const int64_t end = begin + whole(call[2], {0, kLongestNs}, "the time of a call");
    profile.calls.push_back({.step = step, .begin_ns = begin, .end_ns = end});
    profile.launches.push_back({.name = names.at(call[0]), .begin_ns = begin, .end_ns = end});
  }
}

}  // namespace

OpenedProfile read_opened_profile(const Json& answer, int most_steps) {
  const Json& summary = expected_member(answer, "profile");
  if (!summary.is_object()) throw unexpected_answer("'profile'", summary, "an object");
  OpenedProfile opened;
  opened.steps = static_cast<int>(
      whole(expected_member(summary, "steps"), {1, most_steps}, "the number of steps"));
  opened.trace_not_written = answer_text(summary, "trace_not_written");
  Profile& profile = opened.profile;
  profile.source = printable(answer_text(summary, "source"), 200);
  profile.untraced_step_ms = ms_in(summary, "untraced_step_ms");
  profile.has_nodes = false;
  for (const char* phase : kPeerPhases) profile.kernels.push_back({.phase = phase});
  return opened;
}

void read_profile_step(const Json& answer, Profile& profile) {
  const Json& step = expected_member(answer, "step");
  if (!step.is_object()) throw unexpected_answer("'step'", step, "an object");
  const auto number = static_cast<uint32_t>(profile.steps.size());
  const int64_t begin_ns = whole(expected_member(step, "begin_ns"), {0, kLatestNs}, "'begin_ns'");
  const int64_t end_ns = whole(expected_member(step, "end_ns"), {begin_ns, kLatestNs}, "'end_ns'");
  const NameList names(list_in(step, "names"));
  const size_t first_call = profile.calls.size(), first = profile.invocations.size();
  const Json& calls = list_in(step, "calls");
  const Json& work = list_in(step, "work");
  if (first + work.size() > kMostPieces || first_call + calls.size() > kMostPieces)
    throw Error(ErrorKind::environment,
                fmt::format("answered with more than {} pieces of work", kMostPieces),
                "keep fewer steps: --schedule active=1");
  read_calls(calls, names, number, profile);
  const auto last_call = static_cast<int64_t>(calls.size()) - 1;
  for (const Json& piece : work) {
    row_of(piece, 6, "a piece of work");
    Invocation each;
    each.step = number;
    each.work.name = names.at(piece[0]);
    each.work.kind = kKinds[whole(piece[1], {0, std::ssize(kKinds) - 1}, "the kind of work")];
    const int64_t phase = whole(piece[2], {-1, std::ssize(kPeerPhases) - 1}, "the phase of work");
    if (phase >= 0)
      each.kernel = static_cast<uint32_t>(phase);
    else
      ++profile.unmapped;
    each.work.begin_ns = whole(piece[3], {0, kLatestNs}, "the begin of work");
    each.work.end_ns = each.work.begin_ns + whole(piece[4], {0, kLongestNs}, "the time of work");
    if (const int64_t call = whole(piece[5], {-1, last_call}, "the call of work"); call >= 0) {
      each.call = static_cast<uint32_t>(first_call + static_cast<size_t>(call));
    } else if (calls.empty()) {
      each.call = static_cast<uint32_t>(profile.calls.size());
      profile.calls.push_back(
          {.step = number, .begin_ns = each.work.begin_ns, .end_ns = each.work.end_ns});
    }
    each.category = each.work.kind == DeviceWork::Kind::kernel ? category_of_name(each.work.name)
                                                               : Category::memory;
    profile.invocations.push_back(std::move(each));
  }
  std::ranges::stable_sort(profile.invocations.begin() + static_cast<std::ptrdiff_t>(first),
                           profile.invocations.end(), {},
                           [](const Invocation& each) { return each.work.begin_ns; });
  profile.steps.push_back(
      {.number = static_cast<int>(number), .begin_ns = begin_ns, .end_ns = end_ns});
}

}  // namespace ridgeline
