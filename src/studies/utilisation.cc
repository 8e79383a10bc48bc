#include "studies/utilisation.h"

#include "base/environment.h"
#include "measure/turns.h"

namespace ridgeline {

UtilisationMeter utilisation_of(const Device& device, const std::string& why_not_cupti) {
  const DeviceFacts facts = device.facts();
  const bool is_led = !environment(kTurnsVariable).empty();
  return facts.is_gpu() && !is_led ? gpu_utilisation(facts.ordinal, why_not_cupti)
                                   : UtilisationMeter();
}

Json utilization_json(const Utilisation& seen) {
  Json json = Json::object();
  if (!seen.source.empty()) {
    json["source"] = seen.source;
    json["seconds"] = 1e-9 * static_cast<double>(seen.end_ns - seen.begin_ns);
  }
  const auto add = [&](const char* name, std::optional<double> value, double unit = 1) {
    if (value) json[std::string_view(name)] = *value / unit;
  };
  add("sm_active", seen.sm_active);
  add("tensor_active", seen.tensor_active);
  add("dram_bytes_per_s", seen.dram_bytes_per_s);
  add("any_kernel", seen.any_kernel);
  add("sm_clock_mhz", seen.sm_clock_hz, 1e6);
  if (!seen.samples.empty()) json["samples"] = seen.samples.size();
  if (!seen.passed_over.empty()) {
    json["passed_over"] = Json::array();
    for (const std::string& each : seen.passed_over) json["passed_over"].push_back(each);
  }
  return json;
}

void add_utilization(UtilisationMeter& meter, Device& device, const std::string& series,
                     const std::function<void()>& work, Record& record) {
  if (!meter || !work) return;
  if (!record.metrics) record.metrics = Json::object();
  (*record.metrics)[series]["utilization"] = utilization_json(meter.measure(device, work));
}

}  // namespace ridgeline
