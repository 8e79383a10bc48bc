#include "studies/cost/row.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr double kMostCounted = 0x1p62;  // records hold 64-bit integers

int64_t whole(double count, const CostWorkload& workload) {
  if (!(count < kMostCounted))
    throw Error(
        ErrorKind::usage,
        fmt::format("{} needs {:.3g} FLOPs or bytes, too many to count", label(workload), count),
        "choose smaller sizes");
  return static_cast<int64_t>(count);
}

}  // namespace

std::vector<Roofline> data_sheets_of(const std::vector<std::string>& gpus) {
  std::vector<Roofline> roofs;
  for (const std::string& gpu : gpus) {
    roofs.push_back(data_sheet_roofline(parse_gpu(gpu)));
    if (std::ranges::count(roofs, roofs.back().title, &Roofline::title) > 1)
      throw Error(ErrorKind::usage,
                  fmt::format("--gpu names {} twice, once as '{}'", roofs.back().title, gpu),
                  "name each GPU once; `ridgeline roofline --list` tells them apart");
  }
  return roofs;
}

std::vector<CostRow> cost_rows(const std::vector<CostWorkload>& works,
                               const std::vector<Roofline>& data_sheets,
                               const std::optional<Roofline>& measured) {
  std::vector<CostRow> rows;
  for (const CostWorkload& workload : works) {
    const auto work = std::make_shared<const CountedWork>(count_work(workload));
    for (const Roofline& ceilings : data_sheets) rows.push_back({workload, work, ceilings});
    if (measured) rows.push_back({workload, work, *measured, true});
  }
  return rows;
}

std::string label(const CostRow& row) {
  return fmt::format("{} on {}", label(row.workload), row.ceilings.title);
}

std::string to_command(const CostRow& row) {
  const std::string words = to_command(row.workload);
  return row.measured ? words : words + " --gpu " + typed_name(parse_gpu(row.ceilings.title));
}

LeastTime least_time(const CountedWork& work, std::string_view dtype, const Roofline& ceilings,
                     bool measured) {
  const ComputeCeiling* top = ceilings.find_compute(dtype);
  const MemoryCeiling* slope = ceilings.main_memory();
  if (top == nullptr || slope == nullptr)
    throw Error(ErrorKind::unsupported,
                measured
                    ? fmt::format("no {} ceiling of this device was measured", dtype)
                    : fmt::format("the data sheet of {} has no {} peak", ceilings.title, dtype),
                measured ? fmt::format("run `ridgeline roofline --dtype {}`", dtype)
                         : "choose another dtype");
  const auto seconds_of = [&](const Cost& cost) {
    return std::max(2 * cost.macs / top->rate, cost.bytes / slope->rate);
  };
  const Cost& total = work.total;
  LeastTime least{.seconds = seconds_of(total),
                  .intensity = 2 * total.macs / total.bytes,
                  .ridge = top->rate / slope->rate};
  for (const Cost& node : work.nodes) least.node_by_node_seconds += seconds_of(node);
  least.bound = least.intensity < least.ridge ? Bound::memory : Bound::compute;
  least.attainable = std::min(top->rate, least.intensity * slope->rate);
  return least;
}

LeastTime least_time(const CostRow& row) {
  return least_time(*row.work, info(row.workload.dtype).name, row.ceilings, row.measured);
}

CostStudy::CostStudy(const Device& device, RowOptions options)
    : device_(device), options_(std::move(options)) {}

Record CostStudy::describe(const CostRow& row, const Record& blank) const {
  Json workload = workload_json(row.workload);
  workload["ceilings"] = row.ceilings.title;
  Record record = describe_row(
      {.study = "cost", .implementation = "calculated", .workload = std::move(workload)}, options_,
      device_, blank);
  record.settings["ceilings_from"] = row.measured ? "measured" : "data sheet";
  const Cost& total = row.work->total;
  record.cost =
      CostFacts{.forward = {whole(total.flops, row.workload), whole(total.macs, row.workload),
                            Bytes{whole(total.bytes, row.workload)}},
                .backward = {},
                .convention = kCostConvention};
  record.metrics =
      Json{{"intensity", 2 * total.macs / total.bytes}, {"product_bytes", row.work->product_bytes}};
  if (const auto text = cached_text(row.workload)) {
    record.metrics->update(
        {{"weights_bytes", text->weights.count},
         {"cache_bytes", text->cache.count},
         {"cache_bytes_per_token", text->per_token.within_window.count},
         {"cache_bytes_per_token_past_window", text->per_token.past_window.count},
         {"longest_context", text->longest_context(memory_of(row))}});
    if (text->window > 0) (*record.metrics)["sliding_window"] = text->window;
  }
  return record;
}

Bytes CostStudy::memory_of(const CostRow& row) const {
  if (row.measured) return device_.ledger().budget();
  return {static_cast<int64_t>(1e9 * parse_gpu(row.ceilings.title).memory_gigabytes)};
}

double CostStudy::expected_s(const CostRow&, const Record&) const {
  constexpr double kRowS = 1e-3;
  return kRowS;
}

std::optional<Record> CostStudy::run(const CostRow& row, Record described) const {
  return try_row(std::move(described), label(row), [&](Record& record) {
    const LeastTime least = least_time(row);
    const ComputeCeiling& top = *row.ceilings.find_compute(info(row.workload.dtype).name);
    record.metrics->update({{"peak_gflops_per_s", top.rate / 1e9},
                            {"gb_per_s", row.ceilings.main_memory()->rate / 1e9},
                            {"ridge", least.ridge},
                            {"bound", name(least.bound)},
                            {"attainable_gflops_per_s", least.attainable / 1e9},
                            {"least_ms", 1e3 * least.seconds},
                            {"node_by_node_ms", 1e3 * least.node_by_node_seconds}});
  });
}

}  // namespace ridgeline
