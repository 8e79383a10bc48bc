// Builds the roofline of a machine from its measured ceilings, and places measured rows on it.
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

// Ratio above a ceiling that run-to-run variation explains; a row further above means that the
// ceiling was measured too low.
inline constexpr double kCeilingSlack = 1.05;

// Prefix of the implementation of probes that only load.
inline constexpr const char* kReadProbe = "read";

// Rates in FLOP/s and B/s. `burst`: before the clocks settled; `spec`: on paper; 0: unknown.
struct ComputeCeiling {
  std::string dtype;
  std::string probe;  // that reached it: "library 4096", "fma"
  double rate = 0;
  double burst = 0;
  double spec = 0;
};

struct MemoryCeiling {
  std::string level;  // "L1", "L2", "L3", "memory"
  std::string probe;  // "copy", "triad", "read"
  double rate = 0;
  double spec = 0;
  Bytes capacity = {};  // of all threads together; 0: main memory
};

// The ceilings of one device with its threads and instruction set.
struct Roofline {
  std::string device;                   // "cpu", "cuda"
  std::string title;                    // as displayed: the model
  std::string fingerprint;              // of the machine
  std::string set_up;                   // threads and instruction set: "2 avx512", "0 sm_90a"
  std::vector<ComputeCeiling> compute;  // the best probe of each dtype
  std::vector<MemoryCeiling> memory;    // the best probe of each level, smallest first, memory last
  std::vector<MemoryCeiling> reads;     // the same for loads alone; empty: not measured
  // The highest load average before the probes ran, and the number of cores: other work lowers
  // ceilings. 0: unknown.
  double load = 0;
  int cores = 0;

  const ComputeCeiling* find_compute(std::string_view dtype) const;  // null: not measured
  // The fastest level that holds a reused working set, or main memory for cold caches; null if none
  // was measured.
  const MemoryCeiling* find_memory(Bytes working_set, bool cold) const;
  const MemoryCeiling* main_memory() const;
  // The ceiling that a row is compared with: loads from main memory if the study recorded such a
  // probe, as decoding does, else find_memory(). Null if none was measured.
  const MemoryCeiling* slope_of(const Record& record, std::string_view series,
                                Bytes working_set) const;
  // The roof of work that reads far more than it writes, such as decoding: each level has the rate
  // of loads alone if it was measured. A copy may be faster, as a core that waits for loads can
  // still store.
  Roofline for_reading() const;
  // The ridge point in FLOPs per byte; nullopt if a ceiling is missing.
  std::optional<double> ridge(std::string_view dtype) const;
};

// Uses the records of `ridgeline roofline` and ignores others; of a ceiling measured twice the
// later one counts.
std::vector<Roofline> rooflines(std::span<const Record> records);

// The roofline of a GPU from its data sheet: dense peaks and bandwidth, no caches.
Roofline data_sheet_roofline(const GpuSpec& spec);

// The roofline with the machine, device, threads and instruction set of a record; null if none.
const Roofline* roofline_of(const Record& record, std::span<const Roofline> all);

// The cost of a series of a record; nullopt if unknown.
std::optional<PhaseCost> cost_of(const Record& record, std::string_view series);

// The FLOPs that run, an FMA as two: those of the products, or by the convention if there are none.
double flops_done(const PhaseCost& cost);

enum class Bound { compute, memory, overhead };

// `below_ridge`: memory limits the rate more than arithmetic. A call is overhead-bound if it is
// short and its roof explains less than half of its time.
Bound bound_of(double seconds, double share, bool below_ridge);

// One phase of one record. Points into the record it was made from.
struct RooflinePoint {
  const Record* record = nullptr;
  std::string phase;          // the series: "forward", "backward"
  std::string dtype;          // requested
  std::string path;           // of its products: "fp32", "fp32 by 3 fp16 products"
  bool path_is_known = true;  // false: assumed from the dtype
  std::string workload;       // as displayed: "naive S=1024 d=64 batch=8"
  double flops = 0;           // that run, an FMA as two
  double bytes = 0;           // that must move at least, node by node
  double seconds = 0;
  double intensity = 0;   // FLOPs per byte
  double rate = 0;        // FLOP/s
  double ceiling = 0;     // FLOP/s of its arithmetic alone
  double attainable = 0;  // FLOP/s of the roof at this intensity
  double share = 0;       // rate / attainable
  std::string level;      // of memory that holds the working set
  Bound bound = Bound::compute;
};

// Places the phases of records that are ok, have a cost, and belong to the roofline.
std::vector<RooflinePoint> place(std::span<const Record> records, const Roofline& roofline);

// FLOP/s of the roof for one call in a dtype; nullopt if a ceiling is missing.
std::optional<double> attainable(const Roofline& roofline, std::string_view dtype, double intensity,
                                 Bytes working_set, bool cold);

// The compute ceiling, in FLOP/s, of the arithmetic of a pass; nullopt if a ceiling is missing.
std::optional<double> measured_ceiling(const Roofline& roofline, const Arithmetic& arithmetic);

std::string_view name(Bound bound);  // "compute", "memory", "overhead"

}  // namespace ridgeline
