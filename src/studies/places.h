// Groups the rows of a report that can be compared: those of one machine, settings and workload.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "report/page/rows.h"

namespace ridgeline {

// Rows that differ only in implementation and in what is drawn against each other.
struct RowPlace {
  std::string name;  // no two places have the same: "gemm, fp32, hot, CPU, 2 threads"
  std::vector<const Record*> rows = {};
};

// Returns the places in the order of their first rows. Rows of one place have the same name, and
// agree in machine, device and all of workload and settings but `drawn`. Where several places have
// the same name, what sets them apart follows it.
std::vector<RowPlace> places_of(const std::vector<const Record*>& rows,
                                const std::function<std::string(const Record&)>& name,
                                std::span<const std::string_view> drawn = {});

// ", layers 2, 4 threads": those of the facts in which others of `alike` differ; empty if none do.
std::string apart_words(const Json& facts, const std::vector<Json>& alike);

}  // namespace ridgeline
