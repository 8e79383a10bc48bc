#include "measure/rounds.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "measure/compare.h"
#include "measure/rank_interval.h"

namespace ridgeline {
namespace {

// At the first look, signed ranks are just able to give a few lines an interval.
constexpr int kLooksBeforeTheEnd[] = {kFirstLook, 14, 20, 28, 40, 56, 80, 112};
static_assert(std::size(kLooksBeforeTheEnd) + 1 == kLooks);

double log_quickest(std::vector<double> samples) {
  if (samples.empty()) throw Error(ErrorKind::internal, "a quad without samples");
  const auto decile = samples.begin() + static_cast<ptrdiff_t>(samples.size() / 10);
  std::nth_element(samples.begin(), decile, samples.end());
  return log_ms(*decile);
}

size_t lines_of(const std::vector<PairedRow>& rows) {
  size_t lines = 0;
  for (const PairedRow& row : rows)
    for (const PairedPhase& phase : row.phases) lines += is_compared(phase.name) ? 1 : 0;
  return lines;
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

int fewest_rounds(size_t lines) {
  // Each end of the widest interval is missed by one of the 2^n patterns of signs.
  return static_cast<int>(std::ceil(1 - std::log2(1 - confidence_for(lines, kLooks))));
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
    if (all || (done >= fewest_rounds(lines_of(rows)) && now_s() >= end_s)) break;
  }
  return true;
}

}  // namespace ridgeline
