#include "measure/noise.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "measure/record_text.h"

namespace ridgeline {
namespace {

struct Seen {
  const Record* record = nullptr;
  std::vector<double> excesses = {};               // of comparisons of a row with itself
  std::vector<std::span<const double>> runs = {};  // samples of runs by themselves

  // What the interval does not account for: how far it stays away from nothing. Too few figures
  // have an endless interval, which tells nothing.
  void add(const Shift& shift) {
    if (std::isfinite(shift.low) && std::isfinite(shift.high))
      excesses.push_back(std::max({0.0, shift.low, -shift.high}));
  }
};

bool are_times(std::span<const double> samples) {
  return !samples.empty() && std::all_of(samples.begin(), samples.end(), [](double sample) {
    return std::isfinite(sample) && sample > 0;
  });
}

}  // namespace

std::vector<MeasuredNoise> measured_noise(std::span<const Interleaved> in_turns,
                                          std::span<const std::vector<Record>> alone) {
  std::map<std::tuple<std::string, std::string, Pairing>, Seen> seen;
  const auto entry_of = [&](const Record& record, const std::string& phase, Pairing pairing) {
    Seen* entry = &seen[{workload_key(record), phase, pairing}];
    entry->record = &record;
    return entry;
  };
  const double confidence = confidence_for(1), in_turns_confidence = confidence_for(1, kLooks);
  for (const Interleaved& measured : in_turns)
    for (const PairedRow& row : measured.rows)
      for (const PairedPhase& phase : row.phases)
        if (is_compared(phase.name))
          entry_of(row.base, phase.name, Pairing::interleaved)
              ->add(paired_shift(phase.log_ratios, in_turns_confidence));
  for (const std::vector<Record>& records : alone)
    for (const Record& record : records)
      for (const Series& series : record.series)
        if (is_compared(series.name) && record.status == Status::ok &&
            are_times(series.samples_ms)) {
          Seen* entry = entry_of(record, series.name, Pairing::separate);
          for (const std::span<const double> earlier : entry->runs)
            entry->add(
                unpaired_shift(logarithms(earlier), logarithms(series.samples_ms), confidence));
          entry->runs.push_back(series.samples_ms);
        }

  std::vector<MeasuredNoise> out;
  for (const auto& [place, entry] : seen) {
    const auto most = std::max_element(entry.excesses.begin(), entry.excesses.end());
    const auto& [row_key, phase, pairing] = place;
    out.push_back({.fingerprint = entry.record->machine.fingerprint,
                   .device = entry.record->device,
                   .implementation = entry.record->implementation,
                   .row_key = row_key,
                   .phase = phase,
                   .row = row_text(*entry.record),
                   .pairing = pairing,
                   .fraction = most == entry.excesses.end() ? 0 : std::expm1(*most),
                   .comparisons = static_cast<int>(entry.excesses.size())});
  }
  return out;
}

}  // namespace ridgeline
