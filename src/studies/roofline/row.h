// The ceilings of a device, measured: products in registers or large enough, and streams through
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

namespace ridgeline {

struct CeilingProbe {
  enum class Kind { product, arithmetic, stream } kind;
  std::string
      implementation;      // in records: "library", "simd", "fma", "dots", "amx", "copy", "triad", "read"
  std::string dtype = {};  // of products
  int64_t size = 0;        // of a product: [size, size] x [size, size]
  std::string level = {};  // of a stream: "L1", "L2", "L3", "memory"
  Bytes capacity = {};     // of that level, for all threads together; 0: the memory itself
  Bytes buffer = {};       // of each of a stream's arrays, for all threads together
  bool within_cache = false;  // a stream of memory whose arrays the budget keeps that small
  std::function<RateProbe()> arithmetic = {};                 // what prepares arithmetic
  std::function<RateProbe(const StreamArrays&)> stream = {};  // and what prepares a stream

  bool is_compute() const { return kind != Kind::stream; }
};

struct RooflineStudyOptions {
  double settle_s = 3;  // at most, until two windows of samples agree
  // Of each probe, after that: its rate is that of the fastest sample.
  Protocol protocol = {.warmups = 0, .time_budget_s = 1};
  std::vector<int64_t> sizes = {};  // of products; empty: large enough that edges do not count
  uint64_t seed = 42;
  Json settings = Json::object();
  std::function<bool()> interrupted = {};
};

class RooflineStudy {
 public:
  RooflineStudy(Device& device, RooflineStudyOptions options);

  // All that this device can be asked. `blank` brings the caches of a CPU.
  std::vector<CeilingProbe> probes(const std::vector<std::string>& dtypes,
                                   const Record& blank) const;
  Record describe(const CeilingProbe& probe, const Record& blank) const;
  // Of the run, for progress lines.
  double expected_s(const CeilingProbe& probe, const Record& described) const;
  // Empty when interrupted.
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
