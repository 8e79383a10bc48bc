// Pairs the rows and phases of two sides, and checks that they are comparable.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "measure/compare.h"
#include "measure/record.h"
#include "measure/rounds.h"

namespace ridgeline {

// One phase of a pair of rows: a line of a comparison, before its statistics.
struct RowPair {
  const Record* base;
  const Record* next;
  std::string phase;                    // empty: no phase is timed on both sides
  const PairedPhase* rounds = nullptr;  // of interleaved sides; null: measured separately

  bool is_measured() const {
    return !phase.empty() && base->status == Status::ok && next->status == Status::ok;
  }
};
size_t measured_in(std::span<const RowPair> lines);

struct RowPairs {
  std::vector<RowPair> lines = {};
  std::vector<std::string> missing = {};  // descriptions of rows and phases only in the base
};

// Pairs rows with the same settings, else with the same workload and axes. Runs must be merged; the
// result points into the records.
RowPairs pair_rows(std::span<const Record> base, std::span<const Record> next,
                   const CompareOptions& options);

// Throws a usage error that names a row of each side if no row is in both.
void refuse_nothing_to_compare(const RowPairs& pairs, std::span<const Record> base,
                               std::span<const Record> next, const CompareOptions& options);

// Throws a usage error for different machines or settings; with `force`, returns the differences.
std::vector<std::string> check_comparable(std::span<const RowPair> lines, bool force);

}  // namespace ridgeline
