#include "studies/gemm/row.h"

#include "base/error.h"
#include "studies/device_facts.h"
#include "studies/device_modes.h"
#include "studies/expected_time.h"
#include "studies/gemm/problem.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr const char* kProductPeakIs =
    "FLOPs over the dense peak of all multiprocessors (or cores) at the clock seen";
constexpr const char* kCeilingIs =
    "FLOPs over what the measured roofline allows at this intensity, in the cache that holds the "
    "operands";

// A queue that has run dry waits for the next launch. A sample of a short product therefore times
// several calls, after an untimed one.
constexpr double kLongMs = 2;
constexpr int kCallsPerShortSample = 10;

}  // namespace

GemmStudy::GemmStudy(Device& device, GemmStudyOptions options)
    : device_(device), options_(std::move(options)), meter_(utilisation_of(device)) {}

Record GemmStudy::describe(const GemmWorkload& workload, const Record& blank) const {
  const GemmShape& shape = workload.shape;
  Record record = describe_row({.study = "gemm",
                                .implementation = workload.implementation,
                                .workload = {{"op", shape.is_vector() ? "gemv" : "gemm"},
                                             {"m", shape.m},
                                             {"n", shape.n},
                                             {"k", shape.k},
                                             {"dtype", info(workload.dtype).name}}},
                               options_.row, device_, blank);
  record.settings["mode"] = options_.cold ? "cold" : "hot";
  const PhaseCost cost = gemm_cost(shape, workload.dtype);
  record.cost = CostFacts{.forward = cost, .backward = {}, .convention = kGemmConvention};
  record.memory.predicted_peak = cost.bytes;  // moved once each, so also what the tensors occupy
  return record;
}

double GemmStudy::expected_s(const GemmWorkload& workload, const Record& described) const {
  const PhaseCost& cost = described.cost->forward;
  const double once =
      expected_once_s({.flops = static_cast<double>(cost.flops),
                       .bytes = static_cast<double>(cost.bytes.count),
                       .dtype = info(workload.dtype).name,
                       .slowdown = kGemmImplementations.find(workload.implementation).slowdown},
                      device_, described.machine);
  return 2 * once + expected_samples_s(once, options_.row.protocol);
}

std::optional<Record> GemmStudy::run(const GemmWorkload& workload, Record described) {
  return try_row(std::move(described), label(workload), [&](Record& record) {
    device_.ledger().start_over();
    GemmProblem problem(workload, device_, options_.row.seed);
    problem.run_poisoned();
    record.memory.peak = device_.ledger().peak();
    if (options_.row.verify) take_verification(record, problem.verify(options_.row.seed));
    const std::function<void()> flush =
        options_.cold ? device_.cache_flush(last_cache(device_.facts(), record.machine))
                      : std::function<void()>();
    const bool is_short = device_.time_ms([&] { problem.start(); }) < kLongMs;
    const bool runs_dry = device_.has_queue() && is_short && !flush;
    const int calls = runs_dry ? kCallsPerShortSample : 1;
    sample_row(record, device_, options_.row, {"forward"}, [&](std::span<double> phase_ms) {
      if (flush) flush();
      if (runs_dry) problem.start();
      phase_ms[0] = device_.time_ms([&] {
        for (int call = 0; call < calls; ++call) problem.start();
      }) / calls;
    });
    record.metrics = Json{{"calls_per_sample", calls}};
    derive(workload, record);
    if (!flush)
      add_utilization(
          meter_, device_, "forward", [&] { problem.start(); }, record);
  });
}

void GemmStudy::derive(const GemmWorkload& workload, Record& record) const {
  const std::string_view dtype = info(workload.dtype).name;
  const PhaseCost& cost = record.cost->forward;
  const double seconds = record.find_series("forward")->statistics.median_ms / 1e3;
  const double rate = static_cast<double>(cost.flops) / seconds;
  const double intensity = static_cast<double>(cost.flops) / static_cast<double>(cost.bytes.count);
  const DeviceFacts facts = device_.facts();
  Json of = {{"gflops_per_s", rate / 1e9},
             {"gb_per_s", static_cast<double>(cost.bytes.count) / seconds / 1e9},
             {"arithmetic_intensity", intensity}};
  if (const auto peak = peak_at_clock_seen(facts, record, dtype)) of["peak_share"] = rate / *peak;
  if (options_.roofline != nullptr) {
    const Roofline& roofline = *options_.roofline;
    const auto roof = attainable(roofline, dtype, intensity, cost.bytes, options_.cold);
    if (roof) {
      const MemoryCeiling& level = *roofline.find_memory(cost.bytes, options_.cold);
      of["ceiling_share"] = rate / *roof;
      of["ceiling_level"] = level.level;
      if (level.capacity > Bytes{}) of["ceiling_level_bytes"] = level.capacity.count;
    }
    if (const auto memory_roof = attainable(roofline, dtype, intensity, cost.bytes, true))
      of["memory_ceiling_share"] = rate / *memory_roof;
  }
  (*record.metrics)["forward"] = std::move(of);
  (*record.metrics)["peak_share_is"] = kProductPeakIs;
  (*record.metrics)["ceiling_share_is"] = kCeilingIs;

  Achieved achieved{.flops_per_s = rate};
  // After a flush all reads come from memory, so its bandwidth bounds them; writes may stay in the
  // cache.
  const int64_t written = workload.shape.m * workload.shape.n * info(workload.dtype).size;
  if (options_.cold)
    achieved.bytes_per_s = static_cast<double>(cost.bytes.count - written) / seconds;
  mark_if_faster_than_light(record, {}, achieved, device_peaks(facts, record.machine, dtype));
}

}  // namespace ridgeline
