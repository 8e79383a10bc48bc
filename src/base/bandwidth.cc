#include "base/bandwidth.h"

#include <fmt/format.h>

#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"

namespace ridgeline {

double parse_bandwidth(std::string_view text) {
  std::string amount = lower_case(text);
  const auto takes = [&](std::string_view ending) {
    if (!amount.ends_with(ending)) return false;
    amount.resize(amount.size() - ending.size());
    return true;
  };
  double bytes = 0;
  if (takes("/s")) {
    const bool is_bits = takes("bit");
    try {
      bytes = static_cast<double>(parse_bytes(is_bits ? amount + "b" : amount).count) /
              (is_bits ? 8 : 1);
    } catch (const Error&) {  // reported below
    }
  }
  if (bytes > 0) return bytes;
  throw Error(ErrorKind::usage, fmt::format("'{}' is not a bandwidth above 0", text),
              "write it like 450GB/s, 25GiB/s or 400Gbit/s");
}

std::string format_bandwidth(double bytes_per_s) {
  return format_decimal_bytes(bytes_per_s) + "/s";
}

std::string format_decimal_bytes(double bytes) {
  static constexpr std::pair<const char*, double> kUnits[] = {
      {"PB", 1e15}, {"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}};
  for (const auto& [name, size] : kUnits) {
    const double value = bytes / size;
    if (value < 0.9995) continue;
    const int decimals = value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    return fmt::format("{:.{}f} {}", value, decimals, name);
  }
  return fmt::format("{:.0f} B", bytes);
}

}  // namespace ridgeline
