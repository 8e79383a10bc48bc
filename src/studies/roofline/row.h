// Measures the ceilings of a device: arithmetic in registers, large products, and streams through
// each level of memory, all at settled clocks.
//
//   RooflineStudy study(device, {});
//   for (const CeilingProbe& probe : study.probes({"fp32", "bf16"}, blank))
//     Record record = study.run(probe, study.describe(probe, blank)).value();
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "measure/record.h"
#include "measure/roofline_model.h"
#include "runtime/device.h"
#include "studies/row.h"

namespace ridgeline {

struct CeilingProbe {
  enum class Kind { product, arithmetic, stream } kind;
  // In records: "library", "simd", "fma", "dots", "amx", "copy", "triad", "read".
  std::string implementation;
  std::string dtype = {};     // of products and arithmetic
  int64_t size = 0;           // of a product: [size, size] x [size, size]
  std::string level = {};     // of a stream: "L1", "L2", "L3", "memory"
  Bytes capacity = {};        // of that level, over all threads; 0: main memory
  Bytes buffer = {};          // of each array of a stream, over all threads
  bool within_cache = false;  // arrays in memory that the budget keeps as small as the cache
  std::function<RateProbe()> arithmetic = {};                 // prepares arithmetic
  std::function<RateProbe(const StreamArrays&)> stream = {};  // prepares a stream

  bool is_compute() const { return kind != Kind::stream; }
};

struct RooflineStudyOptions {
  // The protocol is of each probe, after the clocks have settled: its rate is that of the fastest
  // sample.
  RowOptions row = {.protocol = {.warmups = 0, .time_budget_s = 1}};
  double settle_s = 3;              // at most, until two windows of samples agree
  std::vector<int64_t> sizes = {};  // of products; empty: large enough that edges are negligible
};

class RooflineStudy {
 public:
  RooflineStudy(Device& device, RooflineStudyOptions options);

  // Returns all probes that this device supports. `blank` has the caches of a CPU.
  std::vector<CeilingProbe> probes(const std::vector<std::string>& dtypes,
                                   const Record& blank) const;
  Record describe(const CeilingProbe& probe, const Record& blank) const;
  // The expected duration of the run, for progress lines.
  double expected_s(const CeilingProbe& probe, const Record& described) const;
  // Returns nullopt if interrupted.
  std::optional<Record> run(const CeilingProbe& probe, Record described);

 private:
  RateProbe prepare(const CeilingProbe& probe);
  RateProbe prepare_stream(const CeilingProbe& probe);
  void add_rates(const CeilingProbe& probe, const RateProbe& work, double burst_ms,
                 double settled_s, Record& record) const;

  Device& device_;
  RooflineStudyOptions options_;
};

std::string label(const CeilingProbe& probe);  // "fp32 library 4096", "L2 copy"

}  // namespace ridgeline
