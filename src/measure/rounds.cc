#include "measure/rounds.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "measure/rank_interval.h"

namespace ridgeline {
namespace {

// At the first look, signed ranks are just able to give a few rows an interval.
constexpr int kLooksBeforeTheEnd[] = {kFirstLook, 14, 20, 28, 40, 56, 80, 112};
static_assert(std::size(kLooksBeforeTheEnd) + 1 == kLooks);

double log_quickest(std::vector<double> samples) {
  if (samples.empty()) throw Error(ErrorKind::internal, "a quad without samples");
  const auto decile = samples.begin() + static_cast<ptrdiff_t>(samples.size() / 10);
  std::nth_element(samples.begin(), decile, samples.end());
  return log_ms(*decile);
}

}  // namespace

void PairedPhase::add_round(std::span<const Quad> quads) {
  std::vector<double> ratios;
  for (const Quad& quad : quads) {
    ratios.push_back(log_quickest(quad.new_ms) - log_quickest(quad.base_ms));
    base_ms.insert(base_ms.end(), quad.base_ms.begin(), quad.base_ms.end());
    new_ms.insert(new_ms.end(), quad.new_ms.begin(), quad.new_ms.end());
  }
  if (!ratios.empty()) log_ratios.push_back(median_of(std::move(ratios)));
}

PairedPhase& PairedRow::phase(const std::string& name) {
  const auto found = std::find_if(phases.begin(), phases.end(),
                                  [&](const PairedPhase& phase) { return phase.name == name; });
  return found != phases.end() ? *found : phases.emplace_back(PairedPhase{name, {}, {}, {}});
}

bool is_look(int rounds) {
  return std::find(std::begin(kLooksBeforeTheEnd), std::end(kLooksBeforeTheEnd), rounds) !=
         std::end(kLooksBeforeTheEnd);
}

bool take_rounds(std::vector<PairedRow>& rows, const RoundOptions& options,
                 const MeasureRound& measure) {
  const auto now_s = [&] { return options.now_s ? options.now_s() : monotonic_s(); };
  const double end_s = now_s() + options.time_budget_s * static_cast<double>(rows.size());
  std::vector<bool> settled(rows.size());
  for (int done = 0; done < options.rounds;) {
    if (!measure(done, settled, rows)) return false;
    ++done;
    if (options.settled && is_look(done)) {
      const std::vector<bool> now = options.settled(rows);
      for (size_t row = 0; row < rows.size(); ++row) settled[row] = settled[row] || now.at(row);
    }
    const bool all = std::find(settled.begin(), settled.end(), false) == settled.end();
    if (all || (done >= kFirstLook && now_s() >= end_s)) break;
  }
  return true;
}

}  // namespace ridgeline
