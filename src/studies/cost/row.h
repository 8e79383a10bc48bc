// One row of the cost study: counted work under the ceilings of one device. Nothing is executed.
//
//   CostStudy study(device, {});
//   Record record = study.run(row, study.describe(row, blank)).value();
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "measure/record.h"
#include "measure/roofline_model.h"
#include "runtime/device.h"
#include "studies/cost/workload.h"
#include "studies/row.h"

namespace ridgeline {

// The data sheets of GPUs by their typed names. Throws a usage error if one is named twice.
std::vector<Roofline> data_sheets_of(const std::vector<std::string>& gpus);

struct CostRow {
  CostWorkload workload;
  std::shared_ptr<const CountedWork> work;
  Roofline ceilings;
  bool measured = false;  // false: the ceilings are the data sheet's
};
// Every workload under every device's ceilings; each is counted once.
std::vector<CostRow> cost_rows(const std::vector<CostWorkload>& works,
                               const std::vector<Roofline>& data_sheets,
                               const std::optional<Roofline>& measured);
std::string label(const CostRow& row);  // "gemm 64x64x64 fp32 on T4"
// The words after "ridgeline cost" that select this row.
std::string to_command(const CostRow& row);

// The least time that the ceilings allow, with all bytes at the bandwidth of main memory.
struct LeastTime {
  double seconds = 0;               // the longer of all arithmetic and all bytes
  double node_by_node_seconds = 0;  // the same per node, summed over nodes
  Bound bound = Bound::memory;
  double intensity = 0;   // FLOPs of products per byte
  double attainable = 0;  // FLOP/s of the roof at this intensity
  double ridge = 0;
};
// Throws an unsupported error if the device has no ceiling for the dtype.
LeastTime least_time(const CountedWork& work, std::string_view dtype, const Roofline& ceilings,
                     bool measured);
LeastTime least_time(const CostRow& row);

class CostStudy {
 public:
  CostStudy(const Device& device, RowOptions options);

  Record describe(const CostRow& row, const Record& blank) const;
  double expected_s(const CostRow& row, const Record& described) const;
  std::optional<Record> run(const CostRow& row, Record described) const;

 private:
  Bytes memory_of(const CostRow& row) const;  // of the device with these ceilings

  const Device& device_;
  RowOptions options_;
};

}  // namespace ridgeline
