#include "studies/roofline/row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "studies/device_facts.h"
#include "studies/device_modes.h"
#include "studies/expected_time.h"
#include "studies/gemm/problem.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr const char* kRateIs =
    "of the fastest sample once clocks had settled: others can only be in the way of a ceiling; "
    "median_ is of the median sample, burst_ of the fastest in the first window before that";
constexpr double kSettleWindowS = 0.25;
constexpr double kSettled = 0.01;  // windows that differ by less have settled
constexpr double kSampleMs = 2;    // at least; shorter work is repeated

constexpr int64_t kLine = 64;  // floats: the granularity of streams

// Large enough that edges are negligible, small enough for a sample in reasonable time.
std::vector<int64_t> product_sizes(const DeviceFacts& facts) {
  if (facts.is_gpu()) return {4096, 8192};
  return {1024, 2048};
}

struct StreamKind {
  const char* name;
  int arrays;
};
constexpr StreamKind kStreams[] = {{"copy", 2}, {"triad", 3}, {kReadProbe, 1}};

int arrays_of(const CeilingProbe& probe) {
  for (const StreamKind& stream : kStreams)
    if (probe.implementation.starts_with(stream.name)) return stream.arrays;
  return 0;
}

// Rounds down to whole lines. The budget holds one more buffer than there are arrays.
Bytes whole_lines(int64_t wanted, Bytes budget, int arrays) {
  return {std::min(wanted, budget.count / (arrays + 1)) / (kLine * 4) * (kLine * 4)};
}

// Half of a cache, so that code and other data do not evict the arrays.
Bytes cache_buffer(Bytes capacity, Bytes budget, int arrays) {
  return whole_lines(capacity.count / 2 / arrays, budget, arrays);
}

// Four times the last cache, as STREAM requires, within the budget.
Bytes memory_buffer(const Device& device, Bytes last, int arrays) {
  const int64_t least = int64_t{1} << (device.has_queue() ? 30 : 28);  // hides launch overhead
  return whole_lines(std::max(4 * last.count, least), device.ledger().budget(), arrays);
}

TensorView floats(const Allocation& memory) {
  const int64_t count = memory.bytes().count / 4;
  return {memory.data(), DType::f32, {count}, {1}};
}

}  // namespace

RooflineStudy::RooflineStudy(Device& device, RooflineStudyOptions options)
    : device_(device), options_(std::move(options)) {
  options_.row.protocol.target_precision = 1e-4;  // more samples improve the minimum
}

double RooflineStudy::expected_s(const CeilingProbe&, const Record&) const {
  const Protocol& protocol = options_.row.protocol;
  return options_.settle_s / 2 + (protocol.time_budget_s > 0
                                      ? protocol.time_budget_s
                                      : expected_samples_s(kSampleMs / 1e3, protocol));
}

std::vector<CeilingProbe> RooflineStudy::probes(const std::vector<std::string>& dtypes,
                                                const Record& blank) const {
  using Kind = CeilingProbe::Kind;
  const DeviceFacts facts = device_.facts();
  std::vector<CeilingProbe> all;
  for (const std::string& dtype : dtypes) {
    for (int64_t size : options_.sizes.empty() ? product_sizes(facts) : options_.sizes) {
      all.push_back({Kind::product, "library", dtype, size});
      if (device_.has_gemm(GemmRung::simd)) all.push_back({Kind::product, "simd", dtype, size});
    }
    for (const ArithmeticProbe& each : device_.arithmetic_probes(parse_float_dtype(dtype)))
      all.push_back({.kind = Kind::arithmetic,
                     .implementation = each.name,
                     .dtype = dtype,
                     .arithmetic = each.prepare});
  }
  struct Level {
    std::string name;
    Bytes capacity;
  };
  std::vector<Level> levels;
  if (facts.l2_bytes > 0) {
    levels.push_back({"L2", Bytes{facts.l2_bytes}});
  } else {
    // The last level is shared; each core has its own of the others.
    int last = 0;
    for (const Cache& cache : blank.machine.caches) last = std::max(last, cache.level);
    for (const Cache& cache : blank.machine.caches)
      if (cache.type != "Instruction" && cache.size > Bytes{})
        levels.push_back({fmt::format("L{}", cache.level),
                          Bytes{cache.size.count * (cache.level < last ? facts.threads : 1)}});
  }
  const Bytes budget = device_.ledger().budget();
  const Bytes last = last_cache(facts, blank.machine);
  const std::vector<StreamProbe> ways = device_.stream_probes();
  if (ways.empty()) return all;
  for (const StreamKind& stream : kStreams) {
    const auto work_of = [&](const StreamProbe& way) {
      return stream.arrays == 1 ? way.read : way.prepare;
    };
    for (const Level& level : levels)
      if (work_of(ways.front()))
        all.push_back({.kind = Kind::stream,
                       .implementation = stream.name,
                       .level = level.name,
                       .capacity = level.capacity,
                       .buffer = cache_buffer(level.capacity, budget, stream.arrays),
                       .stream = work_of(ways.front())});
    for (const StreamProbe& way : ways) {
      if ((way.copies_only && stream.arrays > 2) || !work_of(way)) continue;
      const Bytes buffer = memory_buffer(device_, last, stream.arrays);
      all.push_back({.kind = Kind::stream,
                     .implementation = fmt::format("{}{}", stream.name, way.suffix),
                     .level = "memory",
                     .buffer = buffer,
                     .within_cache = stream.arrays * buffer.count < 2 * last.count,
                     .stream = work_of(way)});
    }
  }
  return all;
}

Record RooflineStudy::describe(const CeilingProbe& probe, const Record& blank) const {
  Json workload = {{"ceiling", probe.is_compute() ? "compute" : "memory"}};
  if (probe.is_compute()) workload["dtype"] = probe.dtype;
  if (probe.size > 0) workload["size"] = probe.size;
  if (!probe.is_compute()) {
    workload["level"] = probe.level;
    workload["buffer_bytes"] = probe.buffer.count;
  }
  Record record = describe_row({.study = "roofline",
                                .implementation = probe.implementation,
                                .workload = std::move(workload)},
                               options_.row, device_, blank);
  record.memory.predicted_peak =
      probe.size > 0
          ? gemm_cost({probe.size, probe.size, probe.size}, parse_float_dtype(probe.dtype)).bytes
          : Bytes{arrays_of(probe) * probe.buffer.count};
  return record;
}

RateProbe RooflineStudy::prepare(const CeilingProbe& probe) {
  if (probe.kind == CeilingProbe::Kind::stream) return prepare_stream(probe);
  if (probe.kind == CeilingProbe::Kind::product) {
    const GemmWorkload workload{.shape = {probe.size, probe.size, probe.size},
                                .dtype = parse_float_dtype(probe.dtype),
                                .implementation = probe.implementation};
    const PhaseCost cost = gemm_cost(workload.shape, workload.dtype);
    auto problem = std::make_shared<GemmProblem>(workload, device_, options_.row.seed);
    return {[problem] { problem->start(); }, static_cast<double>(cost.flops),
            static_cast<double>(cost.bytes.count)};
  }
  return probe.arithmetic();
}

RateProbe RooflineStudy::prepare_stream(const CeilingProbe& probe) {
  const int arrays = arrays_of(probe);
  auto memory = std::make_shared<std::vector<Allocation>>();
  for (int array = 0; array < arrays; ++array) {
    memory->push_back(
        device_.ledger().allocate(probe.buffer, fmt::format("stream array {}", array)));
    device_.poison(floats(memory->back()));  // touches the pages before they are timed
  }
  StreamArrays moved{.a = floats(memory->front()),
                     .to = floats(memory->back()),
                     .in_cache = probe.capacity > Bytes{}};
  if (arrays == 3) moved.b = floats((*memory)[1]);
  RateProbe work = probe.stream(moved);
  work.start = [memory, start = std::move(work.start)] { start(); };
  return work;
}

std::optional<Record> RooflineStudy::run(const CeilingProbe& probe, Record described) {
  return try_row(std::move(described), label(probe), [&](Record& record) {
    device_.ledger().start_over();
    const RateProbe work = prepare(probe);
    work.start();  // loads every kernel
    device_.synchronize();
    const auto one = [&] { return device_.time_ms([&] { work.start(); }); };
    const double first_ms = std::max(1e-4, one());
    const int calls = std::max(1, static_cast<int>(std::ceil(kSampleMs / first_ms)));
    const auto sample = [&] {
      return device_.time_ms([&] {
        for (int call = 0; call < calls; ++call) work.start();
      }) / calls;
    };
    // Clocks fall under load until heat and power balance; the rate after that counts.
    const double begin = monotonic_s();
    double burst_ms = INFINITY, last_ms = INFINITY;
    while (monotonic_s() - begin < options_.settle_s) {
      if (options_.row.interrupted && options_.row.interrupted()) throw Interrupted();
      double window_ms = INFINITY;
      const double window = monotonic_s();
      do window_ms = std::min(window_ms, sample());
      while (monotonic_s() - window < std::min(kSettleWindowS, options_.settle_s));
      if (std::isinf(burst_ms)) burst_ms = window_ms;
      if (std::abs(window_ms / last_ms - 1) < kSettled) break;
      last_ms = window_ms;
    }
    const double settled_s = monotonic_s() - begin;
    sample_row(record, device_, options_.row, {"probe"},
               [&](std::span<double> phase_ms) { phase_ms[0] = sample(); });
    record.memory.peak = device_.ledger().peak();
    const auto flops = static_cast<int64_t>(work.flops);
    record.cost = CostFacts{
        .forward = {flops, flops / 2, Bytes{static_cast<int64_t>(work.bytes)}},
        .backward = {},
        .convention = "an FMA counts as two; bytes read and written once by each pass of a stream"};
    add_rates(probe, work, burst_ms, settled_s, record);
  });
}

void RooflineStudy::add_rates(const CeilingProbe& probe, const RateProbe& work, double burst_ms,
                              double settled_s, Record& record) const {
  const DeviceFacts facts = device_.facts();
  const Statistics& times = record.find_series("probe")->statistics;
  const double amount = probe.is_compute() ? work.flops : work.bytes;
  const std::string unit = probe.is_compute() ? "gflops_per_s" : "gb_per_s";
  const auto rate = [&](double ms) { return amount / ms / 1e6; };
  Json metrics = {{unit, rate(times.min_ms)}, {"median_" + unit, rate(times.median_ms)}};
  if (std::isfinite(burst_ms)) metrics["burst_" + unit] = rate(burst_ms);
  metrics["settled_s"] = settled_s;
  metrics["rate_is"] = kRateIs;
  if (probe.within_cache) metrics["within_cache"] = true;
  if (probe.capacity > Bytes{}) metrics["capacity_bytes"] = probe.capacity.count;
  // Also under the name of the series, for readers that look for a roof, which a cache is not.
  if (probe.is_compute())
    metrics["probe"] = {{"flops_per_s", 1e9 * rate(times.min_ms)}};
  else if (probe.capacity == Bytes{})
    metrics["probe"] = {{"bytes_per_s", 1e9 * rate(times.min_ms)}};
  const GpuSpec* spec = find_gpu_spec(facts.model);
  if (spec != nullptr) {
    const double listed = probe.is_compute()         ? 1e3 * dense_tflops(*spec, probe.dtype)
                          : probe.capacity > Bytes{} ? 0
                                                     : spec->gigabytes_per_s;
    if (listed > 0) {
      metrics["spec_" + unit] = listed;
      metrics["spec_is"] = fmt::format("data sheet of {}, dense", spec->name);
    }
  } else if (probe.is_compute()) {
    if (const auto peak = peak_at_clock_seen(facts, record, probe.dtype)) {
      metrics["spec_" + unit] = *peak / 1e9;
      metrics["spec_is"] = "units x clock as measured";
    }
  }
  record.metrics = std::move(metrics);

  const Peaks limits = device_peaks(facts, record.machine,
                                    probe.dtype.empty() ? std::string_view("fp32") : probe.dtype);
  Achieved achieved;
  if (probe.is_compute())
    achieved.flops_per_s = 1e9 * rate(times.min_ms);
  else if (probe.capacity == Bytes{})
    achieved.bytes_per_s = 1e9 * rate(times.min_ms);
  mark_if_faster_than_light(record, "", achieved, limits);
}

std::string label(const CeilingProbe& probe) {
  if (!probe.is_compute()) return fmt::format("{} {}", probe.level, probe.implementation);
  return fmt::format("{} {}{}", probe.dtype, probe.implementation,
                     probe.size > 0 ? fmt::format(" {}", probe.size) : "");
}

}  // namespace ridgeline
