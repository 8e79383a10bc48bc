#include "studies/decode/row.h"

#include <cmath>

#include "base/larger.h"
#include "measure/record_values.h"
#include "studies/cost/row.h"
#include "studies/device_facts.h"
#include "studies/device_modes.h"
#include "studies/expected_time.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr const char* kLayerConvention =
    "MACs are those of matrix products, of attention in one node those that the mask lets "
    "through; FLOPs are "
    "two for each of them and one or a few for every element of everything else; bytes are what "
    "the kernels of this implementation read and write, once each; intensity is FLOPs of products "
    "per byte";

Trace layer_trace(const LayerWorkload& workload) {
  return [graph = layer_graph(workload)](const Rewrite& forward) { return forward(graph); };
}

}  // namespace

std::optional<LayerCeilings> layer_ceilings(const std::optional<Roofline>& measured,
                                            const DeviceFacts& facts, std::string_view dtype) {
  if (measured && measured->ridge(dtype)) return LayerCeilings{measured->for_reading(), true};
  const GpuSpec* spec = facts.is_gpu() ? find_gpu_spec(facts.model) : nullptr;
  if (spec == nullptr || dense_tflops(*spec, dtype) <= 0) return std::nullopt;
  return LayerCeilings{data_sheet_roofline(*spec), false};
}

LayerStudy::LayerStudy(Device& device, LayerStudyOptions options)
    : device_(device), options_(std::move(options)), values_(device, options_.row.seed) {}

Record LayerStudy::describe(const LayerWorkload& workload, const Record& blank) {
  Record record = describe_row({.study = "decode",
                                .implementation = info(workload.mode).name,
                                .workload = workload_json(workload)},
                               options_.row, device_, blank);
  record.settings["mode"] = options_.cold ? "cold" : "hot";
  const Executable& executable =
      planned_.plan(record, layer_trace(workload), device_, layer_compile_options(workload));
  record.memory.predicted_peak = executable.predicted_peak();
  const CountedWork work{.total = executable.stage_costs()[0], .nodes = executable.kernel_costs()};
  const auto whole = [](double count) { return static_cast<int64_t>(count); };
  record.cost = CostFacts{
      .forward = {whole(work.total.flops), whole(work.total.macs), Bytes{whole(work.total.bytes)}},
      .backward = {},
      .convention = kLayerConvention};
  Json of = {{"intensity", 2 * work.total.macs / work.total.bytes}};
  const std::string_view dtype = info(workload.dtype).name;
  if (const auto ceilings = layer_ceilings(options_.roofline, device_.facts(), dtype)) {
    const LeastTime least = least_time(work, dtype, ceilings->roofline, ceilings->measured);
    of.update({{"ridge", least.ridge},
               {"bound", name(least.bound)},
               {"predicted_ms", 1e3 * least.seconds},
               {"ceilings_from", ceilings->measured ? "measured" : "data sheet"},
               {"memory_probe", ceilings->roofline.main_memory()->probe}});
  }
  record.metrics = Json{{"forward", std::move(of)}};
  return record;
}

double LayerStudy::expected_s(const LayerWorkload& workload, const Record& described) const {
  const PhaseCost& cost = described.cost->forward;
  const double once = expected_once_s({.flops = static_cast<double>(cost.flops),
                                       .bytes = static_cast<double>(cost.bytes.count),
                                       .dtype = info(workload.dtype).name},
                                      device_, described.machine);
  return 2 * once + expected_samples_s(once, options_.row.protocol);
}

Verification LayerStudy::verify(const LayerWorkload& workload, const Executable& executable) {
  const LastTokens& expected = values_.expected(workload);
  double error = 0;
  const auto got = values_.last_tokens(workload, executable);
  for (size_t sequence = 0; sequence < got.size(); ++sequence) {
    const std::vector<double>& want = expected.texts[sequence % expected.texts.size()];
    for (size_t i = 0; i < want.size(); ++i)
      error = larger(error, std::abs(got[sequence][i] - want[i]));
  }
  return {.checked = true,
          .what = "the last token of every sequence",
          .oracle = "fp32 without a cache",
          .tensors = {{"y", error, expected.tolerance}}};
}

std::optional<Record> LayerStudy::run(const LayerWorkload& workload, Record described) {
  return try_row(std::move(described), label(workload), [&](Record& record) {
    expect_within_budget(*record.memory.predicted_peak, device_);
    if (options_.row.verify)
      values_.expected(workload);  // computed first, so that its memory does not count
    const auto planned =
        planned_.take(record, layer_trace(workload), device_, layer_compile_options(workload));
    Executable& executable = *planned;
    executable.prepare();
    values_.load(workload, executable);
    device_.ledger().start_over();
    executable.set_poison(true);
    executable.run();
    device_.synchronize();
    executable.set_poison(false);
    record.memory.peak = device_.ledger().peak();
    (*record.metrics)["arithmetic"] = arithmetic_metrics(executable.graph(), device_);
    (*record.metrics)["launches"] = executable.launches();
    if (!executable.fallback().empty())
      (*record.metrics)["ran_eagerly_because"] = executable.fallback();
    if (options_.row.verify) take_verification(record, verify(workload, executable));

    const std::function<void()> flush =
        options_.cold ? device_.cache_flush(last_cache(device_.facts(), record.machine))
                      : std::function<void()>();
    sample_row(record, device_, options_.row, {"forward"}, [&](std::span<double> phase_ms) {
      if (flush) flush();
      phase_ms[0] = device_.time_ms([&] { executable.run(); });
    });
    const double ms = record.find_series("forward")->statistics.median_ms;
    Json& of = (*record.metrics)["forward"];
    of["tokens_per_s"] = static_cast<double>(workload.new_tokens()) / ms * 1e3;
    if (const auto least = number_in(of, "predicted_ms")) of["roof_share"] = *least / ms;
    mark_if_faster_than_light(
        record, {},
        {.flops_per_s = 2.0 * static_cast<double>(record.cost->forward.macs) / ms * 1e3},
        device_peaks(device_.facts(), record.machine, info(workload.dtype).name));
  });
}

}  // namespace ridgeline
