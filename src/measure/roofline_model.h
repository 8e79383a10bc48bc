// The roofline of a machine from its measured ceilings, and measured ops placed on it.
//
//   for (const Roofline& roofline : rooflines(records))
//     for (const RooflinePoint& point : place(records, roofline)) use(point);
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cost/device_specs.h"
#include "measure/arithmetic.h"
#include "measure/record.h"

namespace ridgeline {

// A measured ceiling moves by as much from run to run; what is further above says that it was
// measured too low.
inline constexpr double kCeilingSlack = 1.05;

// The implementation of probes that only load begins with it.
inline constexpr const char* kReadProbe = "read";

// Rates in FLOP/s and B/s. `burst`: before the clocks settled; `spec`: on paper; 0: not known.
struct ComputeCeiling {
  std::string dtype;
  std::string probe;  // what reached it: "library 4096", "fma"
  double rate = 0;
  double burst = 0;
  double spec = 0;
  std::string spec_is = {};
};

struct MemoryCeiling {
  std::string level;  // "L1", "L2", "L3", "memory"
  std::string probe;  // "copy", "triad", "read"
  double rate = 0;
  double spec = 0;
  Bytes capacity = {};  // of all threads together; 0: the memory itself
};

// One device of one machine with its threads and instruction set. The roof in a dtype is the best
// of all its probes.
struct Roofline {
  std::string device;                   // "cpu", "cuda"
  std::string title;                    // for people: the model
  std::string fingerprint;              // of the machine
  std::string set_up;                   // threads and instruction set: "2 avx512", "0 sm_90a"
  std::vector<ComputeCeiling> compute;  // the best of each dtype
  std::vector<MemoryCeiling> memory;    // the best of each level, the smallest first, memory last
  std::vector<MemoryCeiling> reads;     // the same of loads alone; empty: not measured
  // The most processes that wanted to run before a run of probes began, and the cores for them:
  // other work lowers ceilings. 0: not known.
  double load = 0;
  int cores = 0;

  const ComputeCeiling* find_compute(std::string_view dtype) const;  // null: not measured
  // The fastest level that holds a working set which is used over and over, or the memory where its
  // caches were emptied; null: none was measured.
  const MemoryCeiling* find_memory(Bytes working_set, bool cold) const;
  const MemoryCeiling* main_memory() const;
  // The one that a row is held against, everywhere: loads of the memory where its study took them,
  // as that of decoding does, else find_memory(). Null: none was measured.
  const MemoryCeiling* slope_of(const Record& record, std::string_view series,
                                Bytes working_set) const;
  // The roof of work that reads far more than it writes, such as decoding: levels have the rate of
  // loads alone where it was measured. A copy may be above it: one core that waits for loads can
  // still store.
  Roofline for_reading() const;
  // FLOPs per byte from which memory is no longer the limit; empty: a ceiling is missing.
  std::optional<double> ridge(std::string_view dtype) const;
};

// From the records of `ridgeline roofline`, whatever else is among them; of a ceiling measured
// twice the later one counts.
std::vector<Roofline> rooflines(std::span<const Record> records);

// Of a GPU that nobody needs to own: its dense peaks and its bandwidth on paper, no caches.
Roofline data_sheet_roofline(const GpuSpec& spec);

// The roofline that belongs to a record: same machine, device, threads and instruction set. Null:
// none.
const Roofline* roofline_of(const Record& record, std::span<const Roofline> all);

// What a series of a record computes; empty: not known.
std::optional<PhaseCost> cost_of(const Record& record, std::string_view series);

// That are done, an FMA as two: those of the products that run, the convention's where there are
// none.
double flops_done(const PhaseCost& cost);

enum class Bound { compute, memory, overhead };

// `below_ridge`: memory allows less than arithmetic. So short a call that its roof explains less
// than half of it is likely to be bounded by its own start.
Bound bound_of(double seconds, double share, bool below_ridge);

// One phase of one record. Points into the record it was made from.
struct RooflinePoint {
  const Record* record = nullptr;
  std::string phase;          // the series: "forward", "backward"
  std::string dtype;          // that was asked for
  std::string path;           // of its products: "fp32", "fp32 by 3 fp16 products"
  bool path_is_known = true;  // false: by its dtype, which may not be how it ran
  std::string workload;       // for people: "naive S=1024 d=64 batch=8"
  double flops = 0;           // done, an FMA as two
  double bytes = 0;           // that must move at least, node by node
  double seconds = 0;
  double intensity = 0;   // FLOPs per byte
  double rate = 0;        // FLOP/s
  double ceiling = 0;     // FLOP/s of its arithmetic alone
  double attainable = 0;  // FLOP/s of the roof at this intensity
  double share = 0;       // rate / attainable
  std::string level;      // of memory that the working set lives in
  Bound bound = Bound::compute;
};

// Those that are ok, have a cost, and belong to the roofline.
std::vector<RooflinePoint> place(std::span<const Record> records, const Roofline& roofline);

// FLOP/s of the roof for one call in a dtype; empty: a ceiling is missing.
std::optional<double> attainable(const Roofline& roofline, std::string_view dtype, double intensity,
                                 Bytes working_set, bool cold);

// FLOP/s that the measured ceilings allow the arithmetic of a pass, whatever its bytes; empty: a
// ceiling is missing.
std::optional<double> measured_ceiling(const Roofline& roofline, const Arithmetic& arithmetic);

std::string_view name(Bound bound);  // "compute", "memory", "overhead"

}  // namespace ridgeline
