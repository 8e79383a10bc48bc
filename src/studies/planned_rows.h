// Keeps the executables of rows from their description to their run, so that each is planned once.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "compile/executable.h"
#include "measure/record.h"

namespace ridgeline {

class PlannedRows {
 public:
  // Plans a row. `row` needs to hold its identity, not yet its predictions.
  const Executable& plan(const Record& row, const Trace& trace, Device& device,
                         const CompileOptions& options) {
    return *(rows_[workload_key(row)] = std::make_unique<Executable>(trace, device, options));
  }
  // Hands over the executable, and with it its memory. Plans the row now if plan() did not.
  std::unique_ptr<Executable> take(const Record& row, const Trace& trace, Device& device,
                                   const CompileOptions& options) {
    auto planned = rows_.extract(workload_key(row));
    return planned ? std::move(planned.mapped())
                   : std::make_unique<Executable>(trace, device, options);
  }

 private:
  std::unordered_map<std::string, std::unique_ptr<Executable>> rows_;  // by workload_key
};

}  // namespace ridgeline
