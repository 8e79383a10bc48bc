// Which rows and phases of two sides are compared with each other, and whether they may be.
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
  const PairedPhase* rounds = nullptr;  // of sides in turns

  bool is_measured() const {
    return !phase.empty() && base->status == Status::ok && next->status == Status::ok;
  }
};
size_t measured_in(std::span<const RowPair> lines);

struct RowPairs {
  std::vector<RowPair> lines = {};
  std::vector<std::string> missing = {};  // rows and phases that only the base has, in words
};

// Rows of the same settings where there are such, else of the same workload. Runs are merged
// before; records must stay where they are.
RowPairs pair_rows(std::span<const Record> base, std::span<const Record> next,
                   const CompareOptions& options);

// Throws a usage error that names a row of each side when no row is in both.
void refuse_nothing_to_compare(const RowPairs& pairs, std::span<const Record> base,
                               std::span<const Record> next, const CompareOptions& options);

// Throws a usage error for different machines or settings; forced, it gives the differences.
std::vector<std::string> check_comparable(std::span<const RowPair> lines, bool force);

}  // namespace ridgeline
