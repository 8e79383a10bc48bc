// Executables of rows that are described and have not run yet: a row is traced and planned once.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

#include "compile/executable.h"
#include "measure/record.h"

namespace ridgeline {

class PlannedRows {
 public:
  // The row says what identifies it, not yet what is predicted of it.
  const Executable& plan(const Record& row, const Trace& trace, Device& device,
                         const CompileOptions& options) {
    return *(rows_[workload_key(row)] = std::make_unique<Executable>(trace, device, options));
  }
  // For its run, whose memory goes with it; a row that was planned elsewhere is planned now.
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
