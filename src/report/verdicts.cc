#include "report/verdicts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "base/sort_by.h"
#include "report/record_cells.h"

namespace ridgeline {
namespace {

Judgement unclear(std::string reason) {
  return {Verdict::unclear, std::move(reason)};
}

// Returns why there are too few samples for a verdict, or an empty string.
std::string too_few(const Record& base, const Record& next, std::string_view phase) {
  size_t fewest = kMinIntervalSamples;
  for (const Record* record : {&base, &next})
    if (const Series* series = record->merged_runs > 0 ? nullptr : record->find_series(phase))
      fewest = std::min(fewest, series->samples_ms.size());
  if (fewest == kMinIntervalSamples) return {};
  return fmt::format("too few samples: {}, and {} are needed", fewest, kMinIntervalSamples);
}

// Replaces the names of the sides: neither of two implementations is a base to the reader. Reasons
// that name one side do not say which, so that those of several pairs count as one.
std::string why(const RowComparison& row) {
  const std::string words = doubt_words(row);
  const bool names_both =
      words.find("the base") != words.npos && words.find("the new ") != words.npos;
  std::string base = "one of them", next = names_both ? "the other" : base;
  if (names_both && row.base.implementation != row.next.implementation) {
    base = printable(row.base.implementation, 40);
    next = printable(row.next.implementation, 40);
  }
  std::string text = words;
  using Side = std::pair<std::string_view, const std::string&>;
  for (const auto& [side, name] :
       {Side("the new side", next), Side("the new one", next), Side("the base", base)})
    if (const size_t at = text.find(side); at != text.npos) text.replace(at, side.size(), name);
  return text;
}

// Returns whether two reasons differ only in their figures.
bool is_alike(std::string_view a, std::string_view b) {
  const auto is_figure = [](char c) { return (c >= '0' && c <= '9') || c == '.'; };
  while (true) {
    while (!a.empty() && is_figure(a.front())) a.remove_prefix(1);
    while (!b.empty() && is_figure(b.front())) b.remove_prefix(1);
    if (a.empty() || b.empty()) return a.empty() && b.empty();
    if (a.front() != b.front()) return false;
    a.remove_prefix(1);
    b.remove_prefix(1);
  }
}

}  // namespace

std::string doubt_words(const RowComparison& row) {
  if (row.note.empty()) return "too close to call";
  return row.note.starts_with("differences below") && row.evidence == Evidence::single
             ? fmt::format("{}, {}", kOneRunEach, row.note)
             : row.note;
}

Judgement verdict_between(const Record& base, const Record& next, std::string_view phase,
                          const NoiseLookup& noise, size_t lines) {
  if (std::string few = too_few(base, next, phase); !few.empty()) return unclear(std::move(few));
  try {
    // The caller chose the sides: settings that differ are what is compared.
    const Comparison comparison =
        compare_records({&base, 1}, {&next, 1},
                        {.noise = noise,
                         .force = true,
                         .implementations = std::pair(base.implementation, next.implementation),
                         .lines = lines});
    for (const RowComparison& row : comparison.rows) {
      if (row.phase != phase) continue;
      if (!row.verdict || *row.verdict == Verdict::unclear)
        return {Verdict::unclear, why(row), row.in_doubt};
      return {*row.verdict, {}};
    }
    return unclear("not measured on both sides");
  } catch (const Error& error) {
    return unclear(error.message());
  }
}

const Judgement& Verdicts::between(const Record& base, const Record& next, std::string_view phase) {
  const auto [found, is_new] = known_.try_emplace({&base, &next, std::string(phase)});
  if (is_new)
    found->second = verdict_between(base, next, phase, noise_,
                                    lines_between(base.implementation, next.implementation));
  return found->second;
}

size_t Verdicts::lines_between(const std::string& base, const std::string& next) {
  const auto [found, is_new] = lines_.try_emplace({base, next});
  if (is_new)
    found->second =
        ridgeline::lines_between(rows_, rows_, {.implementations = std::pair(base, next)});
  return found->second;
}

std::string times_text(double speedup, int decimals) {
  const std::string slower = fmt::format("{:.{}f}x slower", 1 / speedup, decimals);
  std::string faster = fmt::format("{:.{}f}x", speedup, decimals);
  return speedup >= 1 || slower == fmt::format("{:.{}f}x slower", 1.0, decimals) ? faster : slower;
}

std::string times_as_fast(double speedup) {
  std::string text = times_text(speedup);
  return text.ends_with("slower") ? text : text + " as fast";
}

void Reasons::add(const std::string& reason) {
  const auto found = std::find_if(counts_.begin(), counts_.end(),
                                  [&](const auto& known) { return is_alike(known.first, reason); });
  if (found == counts_.end())
    counts_.emplace_back(reason, 1);
  else
    ++found->second;
}

void Reasons::add(const Reasons& other) {
  for (const auto& [reason, count] : other.counts_)
    for (int i = 0; i < count; ++i) add(reason);
}

std::vector<std::pair<std::string, int>> Reasons::sorted() const {
  auto sorted = counts_;
  sort_by_falling(sorted, [](const auto& each) { return each.second; });
  return sorted;
}

constexpr size_t kReasonsShown = 2;

std::string Reasons::text() const {
  const auto reasons = sorted();
  std::string text;
  for (size_t i = 0; i < std::min(kReasonsShown, reasons.size()); ++i)
    text += (i == 0 ? "" : "; ") + reasons[i].first;
  if (reasons.size() > kReasonsShown)
    text += fmt::format("; {} more {}", reasons.size() - kReasonsShown,
                        reasons.size() - kReasonsShown == 1 ? "reason" : "reasons");
  return text;
}

std::string Reasons::all() const {
  if (counts_.size() <= kReasonsShown) return {};
  std::string text;
  for (const auto& [reason, count] : sorted())
    text += fmt::format("{}{} ({})", text.empty() ? "" : "; ", reason, count);
  return text;
}

void Speedup::add(const Record* base, const Record* next, std::string_view phase,
                  const std::string& place) {
  const auto base_ms = base ? median_of(*base, phase) : std::nullopt;
  const auto next_ms = next ? median_of(*next, phase) : std::nullopt;
  if (!base_ms || !next_ms) return;
  const double ratio = *base_ms / *next_ms;
  if (!std::isfinite(ratio) || ratio <= 0) return;
  const Judgement& judgement = verdicts_->between(*base, *next, phase);
  same_ = judgement.verdict == Verdict::same;
  if (judgement.verdict == Verdict::unclear) {
    ++undecided_;
    reasons_.add(judgement.reason);
  }
  if (count_ == 0 || ratio < least_.ratio) least_ = {ratio, place};
  if (count_ == 0 || ratio > most_.ratio) most_ = {ratio, place};
  log_sum_ += std::log(ratio);
  ++count_;
}

double Speedup::mean() const {
  return std::exp(log_sum_ / count_);
}

std::string Speedup::words() const {
  if (count_ == 1 && undecided_ == 1)
    return fmt::format("undecided ({} by the medians, {})", times_as_fast(mean()), least_.place);
  if (count_ == 1)
    return fmt::format("{} ({}{})", same_ ? "as fast" : times_as_fast(mean()),
                       same_ ? times_text(mean()) + ", " : "", least_.place);
  const std::string least = times_as_fast(least_.ratio), most = times_as_fast(most_.ratio);
  const std::string range = least == most ? least
                                          : fmt::format("from {} at {} to {} at {}", least,
                                                        least_.place, most, most_.place);
  if (!mostly_decided())
    return fmt::format("undecided at {} sizes (by the medians {})",
                       undecided_ == count_ ? fmt::format("all {}", count_)
                                            : fmt::format("{} of {}", undecided_, count_),
                       range);
  return fmt::format("{} (geometric mean over {} sizes{}{})", times_as_fast(mean()), count_,
                     undecided_ > 0 ? fmt::format(", {} of them undecided", undecided_) : "",
                     least == most ? "" : "; " + range);
}

}  // namespace ridgeline
