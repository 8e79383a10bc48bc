#include "studies/stored_ceilings.h"

#include "measure/read_results.h"
#include "studies/device_facts.h"

namespace ridgeline {

std::optional<Roofline> stored_ceilings(const std::filesystem::path& results_dir,
                                        const Device& device, const MachineFacts& machine) {
  const std::filesystem::path path = results_dir / "roofline" / "roofline.jsonl";
  std::error_code missing;
  if (!std::filesystem::exists(path, missing)) return std::nullopt;
  Record wanted;
  wanted.device = device.name();
  wanted.machine = machine;
  wanted.settings = device_settings(device, 0);
  const std::vector<Roofline> all = rooflines(read_results(path).records);
  const Roofline* found = roofline_of(wanted, all);
  return found == nullptr ? std::nullopt : std::optional(*found);
}

}  // namespace ridgeline
