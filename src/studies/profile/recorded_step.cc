#include "studies/profile/recorded_step.h"

#include <cmath>
#include <map>

#include "base/printable.h"
#include "profile/trace.h"

namespace ridgeline {
namespace {

constexpr size_t kLongestText = 120;
constexpr size_t kMostTracks = 32;

// Stores each text once; pieces refer to texts by index.
class StepWords {
 public:
  size_t of(std::string_view text) {
    const std::string shown = printable(text, kLongestText);
    const auto [entry, is_new] = places_.try_emplace(shown, words_.size());
    if (is_new) words_.push_back(shown);
    return entry->second;
  }
  Json json() const { return words_; }

 private:
  std::map<std::string, size_t> places_;
  std::vector<std::string> words_;
};

double rounded(double us) {
  return std::round(us * 1e3) / 1e3;
}

std::optional<double> number_at(const Json& list, size_t i) {
  if (i >= list.size() || !list[i].is_number()) return std::nullopt;
  const auto number = list[i].get<double>();
  return std::isfinite(number) && number >= 0 && number < 1e15 ? std::optional(number)
                                                               : std::nullopt;
}

std::vector<std::string> texts_at(const Json& step, const char* key) {
  std::vector<std::string> texts;
  const Json* list = step.find_key(key);
  if (!list || !list->is_array()) return texts;
  for (const Json& each : *list)
    texts.push_back(each.is_string() ? printable(each.get<std::string>(), kLongestText)
                                     : std::string());
  return texts;
}

}  // namespace

Json step_json(const Profile& profile) {
  StepWords tracks, words;
  Json all = Json::array();
  if (profile.steps.empty()) return Json();
  const auto last = static_cast<uint32_t>(profile.steps.size() - 1);
  const std::vector<uint32_t> lanes = lanes_of(profile);
  std::optional<int64_t> begin;
  size_t left_out = 0;
  for (size_t i = 0; i < profile.invocations.size(); ++i) {
    const Invocation& each = profile.invocations[i];
    if (each.step != last) continue;
    if (!begin) begin = each.work.begin_ns;
    if (all.size() == kMostWork) {
      ++left_out;
      continue;
    }
    all.push_back({tracks.of(profile.has_queue ? track_name(each.work, lanes[i]) : "kernels"),
                   rounded(1e-3 * static_cast<double>(each.work.begin_ns - *begin)),
                   rounded(1e-3 * static_cast<double>(each.duration_ns())),
                   words.of(each.work.name), words.of(profile.scope(each)),
                   words.of(profile.phase(each)), words.of(name(each.category))});
  }
  if (all.empty()) return Json();
  return {{"tracks", tracks.json()},
          {"words", words.json()},
          {"work", std::move(all)},
          {"left_out", left_out}};
}

std::optional<RecordedStep> recorded_step(const Record& record) {
  if (!record.metrics || !record.metrics->is_object()) return std::nullopt;
  const Json* json = record.metrics->find_key("step");
  const Json* work = json && json->is_object() ? json->find_key("work") : nullptr;
  if (!work || !work->is_array()) return std::nullopt;
  RecordedStep step{.tracks = texts_at(*json, "tracks")};
  if (step.tracks.empty() || step.tracks.size() > kMostTracks) return std::nullopt;
  const std::vector<std::string> words = texts_at(*json, "words");
  const auto word = [&](const Json& piece, size_t i) {
    const auto place = number_at(piece, i);
    return place && *place < static_cast<double>(words.size()) ? words[static_cast<size_t>(*place)]
                                                               : std::string();
  };
  for (const Json& piece : *work) {
    if (!piece.is_array() || step.work.size() == kMostWork) continue;
    const auto track = number_at(piece, 0), begin = number_at(piece, 1), us = number_at(piece, 2);
    if (!track || !begin || !us || *track >= static_cast<double>(step.tracks.size())) continue;
    step.work.push_back({static_cast<size_t>(*track), *begin, *us, word(piece, 3), word(piece, 4),
                         word(piece, 5), word(piece, 6)});
  }
  if (const Json* left_out = json->find_key("left_out"); left_out && left_out->is_number_unsigned())
    step.left_out = left_out->get<size_t>();
  return step.work.empty() ? std::nullopt : std::optional(std::move(step));
}

}  // namespace ridgeline
