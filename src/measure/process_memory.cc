#include "measure/process_memory.h"

#include <fstream>
#include <string>
#include <string_view>

namespace ridgeline {
namespace {

// Lines of /proc/self/status read "VmHWM:     1688 kB".
std::optional<Bytes> status_field(std::string_view name) {
  std::ifstream status("/proc/self/status");
  for (std::string key, rest; status >> key; std::getline(status, rest)) {
    int64_t kib = 0;
    if (key == name && status >> kib) return Bytes{kib * 1024};
  }
  return std::nullopt;
}

}  // namespace

std::optional<Bytes> current_rss() {
  return status_field("VmRSS:");
}

std::optional<Bytes> peak_rss() {
  return status_field("VmHWM:");
}

bool reset_peak_rss() {
  std::ofstream clear_refs("/proc/self/clear_refs");
  clear_refs << "5" << std::flush;
  return clear_refs.good();
}

}  // namespace ridgeline
