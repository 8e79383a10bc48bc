#include "base/units.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/printable.h"

namespace ridgeline {
namespace {

struct Unit {
  std::string_view name;
  double factor;
};

// Splits "1.5GiB" into 1.5 and "gib" and multiplies; an empty unit counts as factor 1.
double parse_quantity(std::string_view text, std::span<const Unit> units, std::string_view kind,
                      std::string_view examples) {
  auto fail = [&] {
    return Error(ErrorKind::usage, fmt::format("'{}' is not a {}", text, kind),
                 fmt::format("write it like {}", examples));
  };
  double number = 0;
  const char* end = text.data() + text.size();
  auto [rest, problem] = std::from_chars(text.data(), end, number);
  if (problem != std::errc{} || !std::isfinite(number) || number < 0) throw fail();
  while (rest != end && *rest == ' ') ++rest;
  const std::string unit = lower_case(std::string_view(rest, static_cast<size_t>(end - rest)));
  for (const Unit& candidate : units)
    if (unit == candidate.name) return number * candidate.factor;
  throw fail();
}

std::string three_figures(double value, std::string_view unit) {
  const double size = std::abs(value);
  return fmt::format("{:.{}f} {}", value, size < 9.995 ? 2 : size < 99.95 ? 1 : 0, unit);
}

}  // namespace

std::string to_string(Bytes bytes) {
  static constexpr const char* kNames[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes.count);
  size_t unit = 0;
  while (std::abs(value) >= 1023.5 && unit + 1 < std::size(kNames)) {
    value /= 1024.0;
    ++unit;
  }
  if (unit == 0) return fmt::format("{} B", bytes.count);
  return three_figures(value, kNames[unit]);
}

Bytes parse_bytes(std::string_view text) {
  static constexpr Unit kUnits[] = {
      {"", 1},       {"b", 1},        {"k", 0x1p10},   {"kib", 0x1p10}, {"kb", 1e3},
      {"m", 0x1p20}, {"mib", 0x1p20}, {"mb", 1e6},     {"g", 0x1p30},   {"gib", 0x1p30},
      {"gb", 1e9},   {"t", 0x1p40},   {"tib", 0x1p40}, {"tb", 1e12}};
  const double count = parse_quantity(text, kUnits, "size in bytes", "4GiB, 512MiB or 8GB");
  if (count > 0x1p60)
    throw Error(ErrorKind::usage, fmt::format("'{}' is more memory than any machine has", text));
  return Bytes{static_cast<int64_t>(count)};
}

std::string format_seconds(double seconds) {
  if (seconds == 0) return "0 s";
  if (seconds >= 119.5) {
    const auto whole = static_cast<int64_t>(std::lround(seconds));
    return fmt::format("{} min {} s", whole / 60, whole % 60);
  }
  static constexpr Unit kUnits[] = {{"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"ns", 1e-9}};
  const Unit* unit = kUnits;
  while (seconds / unit->factor < 0.9995 && unit + 1 != std::end(kUnits)) ++unit;
  return three_figures(seconds / unit->factor, unit->name);
}

double parse_seconds(std::string_view text) {
  static constexpr Unit kUnits[] = {{"", 1}, {"s", 1}, {"ms", 1e-3}, {"us", 1e-6}, {"min", 60}};
  return parse_quantity(text, kUnits, "duration", "2s, 500ms or 1.5min");
}

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
