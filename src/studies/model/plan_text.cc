// The text of `model --explain`: the plan of each scenario, beside the measured figures.
#include <fmt/format.h>

#include <algorithm>

#include "base/units.h"
#include "measure/record_values.h"
#include "studies/device_facts.h"
#include "studies/model/row.h"

namespace ridgeline {
namespace {

// ", peak memory 1.00 GiB"; empty if the record has none.
std::string measured_peak(const Record& record, std::string_view series) {
  const auto peak = metric_in(record.metrics, series, "peak_bytes");
  return peak ? ", peak memory " + to_string(Bytes{bounded_integer(*peak)}) : std::string();
}

// A lower bound for the kernels' time, run one after another under these peaks; 0: not known.
double roofline_seconds(const Executable& executable, const Peaks& peaks) {
  double seconds = 0;
  for (const Cost& cost : executable.kernel_costs()) {
    const double computing = peaks.flops_per_s ? cost.flops / *peaks.flops_per_s : 0;
    const double moving = peaks.bytes_per_s ? cost.bytes / *peaks.bytes_per_s : 0;
    seconds += std::max(computing, moving);
  }
  return seconds;
}

}  // namespace

std::string ModelStudy::explain(const ModelWorkload& workload, const Record* record) const {
  const std::string_view dtype = info(info(workload.precision).products).name;
  const MachineFacts machine = record ? record->machine : collect_machine_facts();
  const Peaks peaks = device_peaks(device_.facts(), machine, dtype);
  std::string text;
  for (Scenario scenario : options_.scenarios) {
    const auto built = build(workload, scenario);
    Executable& executable = *built;
    text += fmt::format("{}, {}\n", label(workload), info(scenario).name);
    text += fmt::format("predicted: peak memory {}, at least {} by the roofline\n",
                        to_string(executable.predicted_peak()),
                        format_seconds(roofline_seconds(executable, peaks)));
    const Series* series = record ? record->find_series(info(scenario).series) : nullptr;
    if (series != nullptr)
      text += fmt::format("measured: {} (median){}\n",
                          format_seconds(series->statistics.median_ms / 1e3),
                          measured_peak(*record, info(scenario).series));
    ModelWorkload vanilla = workload;
    vanilla.mode = Mode::vanilla;
    text += fmt::format("launches per step: {} vanilla, {} unfused, {} fused, {}\n",
                        build(vanilla, scenario)->launches(), executable.eager_launches(),
                        executable.launches(),
                        info(workload.mode).launch_graph && device_.can_record()
                            ? fmt::format("{} as launch graphs", parts_of(executable).size())
                            : "no launch graph");
    const bool timed = series != nullptr && device_.can_record();
    if (timed) {  // each kernel alone, over realistic inputs
      executable.prepare();
      ModelInputs inputs(device_, {.seed = options_.row.seed});
      inputs.fill(executable, workload.config);
      inputs.set_step(executable, 1, options_.optimizer);
      executable.run();
    }
    text += executable.explain(timed) + "\n";
  }
  return text;
}

}  // namespace ridgeline
