#include "report/page/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

namespace ridgeline {
namespace {

struct Prefix {
  double factor;
  const char* text;
};
constexpr Prefix kTimes[] = {{1e3, "s"}, {1, "ms"}, {1e-3, "us"}, {1e-6, "ns"}};
constexpr Prefix kBytes[] = {
    {0x1p40, "TiB"}, {0x1p30, "GiB"}, {0x1p20, "MiB"}, {0x1p10, "KiB"}, {1, "B"}};
constexpr Prefix kRates[] = {{1e15, "PFLOP/s"}, {1e12, "TFLOP/s"}, {1e9, "GFLOP/s"},
                             {1e6, "MFLOP/s"},  {1e3, "KFLOP/s"},  {1, "FLOP/s"}};
constexpr Prefix kBandwidths[] = {{1e15, "PB/s"}, {1e12, "TB/s"}, {1e9, "GB/s"},
                                  {1e6, "MB/s"},  {1e3, "KB/s"},  {1, "B/s"}};

std::span<const Prefix> prefixes(Quantity quantity) {
  if (quantity == Quantity::milliseconds) return kTimes;
  if (quantity == Quantity::bytes) return kBytes;
  if (quantity == Quantity::flops_per_s) return kRates;
  if (quantity == Quantity::bytes_per_s) return kBandwidths;
  return {};
}

// The largest prefix that leaves a number of at least 1, or the smallest one.
const Prefix& prefix_for(std::span<const Prefix> table, double value) {
  for (const Prefix& prefix : table)
    if (value >= prefix.factor * 0.9995) return prefix;
  return table.back();
}

std::string tick_text(Quantity quantity, double value) {
  if (value == 0) return "0";
  const auto table = prefixes(quantity);
  if (!table.empty()) {
    const Prefix& prefix = prefix_for(table, value);
    return fmt::format("{:.4g} {}", value / prefix.factor, prefix.text);
  }
  return fmt::format("{:.6g}{}", value, quantity == Quantity::ratio ? "x" : "");
}

std::vector<double> usable(std::span<const double> values, bool positive) {
  std::vector<double> out;
  for (const double value : values)
    if (std::isfinite(value) && std::abs(value) < 1e30 && (!positive || value > 1e-30))
      out.push_back(value);
  return out;
}

// Multiples of powers of `base` within the range: 1, 10, 100 or 1, 2, 5, 10, ...
std::vector<double> log_ticks(double base, std::span<const double> steps, int stride, double low,
                              double high) {
  std::vector<double> out;
  const int first = static_cast<int>(std::floor(std::log(low) / std::log(base))) - 1;
  for (int power = first; std::pow(base, power) <= high * (1 + 1e-9); ++power) {
    if (power % stride != 0) continue;
    for (const double step : steps) {
      const double value = step * std::pow(base, power);
      if (value >= low * (1 - 1e-9) && value <= high * (1 + 1e-9)) out.push_back(value);
    }
  }
  return out;
}

std::vector<double> round_log_ticks(Quantity quantity, double low, double high) {
  constexpr size_t kMost = 9;
  constexpr double kOne[] = {1}, kOneTwoFive[] = {1, 2, 5};
  if (quantity == Quantity::bytes || quantity == Quantity::length) {
    for (int stride = 1; stride < 64; ++stride) {
      const auto ticks = log_ticks(2, kOne, stride, low, high);
      if (ticks.size() <= kMost) return ticks;
    }
  }
  const auto fine = log_ticks(10, kOneTwoFive, 1, low, high);
  if (fine.size() <= kMost) return fine;
  for (int stride = 1; stride < 64; ++stride) {
    const auto ticks = log_ticks(10, kOne, stride, low, high);
    if (ticks.size() <= kMost) return ticks;
  }
  return {};
}

}  // namespace

std::string quantity_text(Quantity quantity, double value) {
  if (!std::isfinite(value)) return "";
  const auto table = prefixes(quantity);
  if (quantity == Quantity::length) return fmt::format("{:.0f}", value);
  if (quantity == Quantity::ratio) return fmt::format("{:.2f}x", value);
  if (table.empty()) return fmt::format("{:.3g}", value);
  const Prefix& prefix = prefix_for(table, value);
  const double number = value / prefix.factor;  // three significant figures
  return fmt::format("{:.{}f} {}", number,
                     number < 9.995   ? 2
                     : number < 99.95 ? 1
                                      : 0,
                     prefix.text);
}

Axis log_axis(std::string label, Quantity quantity, std::span<const double> values, Better better) {
  Axis axis{.label = std::move(label), .log = true, .min = 1, .max = 10, .better = better};
  const std::vector<double> good = usable(values, true);
  if (good.empty()) return axis;
  const auto [low, high] = std::minmax_element(good.begin(), good.end());
  const double room = std::max(std::pow(*high / *low, 0.06), 1.15);
  axis.min = *low / room;
  axis.max = *high * room;
  constexpr size_t kFew = 10;
  std::vector<double> ticks;
  const std::set<double> distinct(good.begin(), good.end());
  if (quantity == Quantity::length && distinct.size() <= kFew) {
    // Leaves out lengths whose texts would overlap.
    const double apart = std::pow(axis.max / axis.min, 0.06);
    for (const double length : distinct)
      if (ticks.empty() || length > ticks.back() * apart) ticks.push_back(length);
  } else {
    ticks = round_log_ticks(quantity, axis.min, axis.max);
  }
  for (const double tick : ticks) axis.ticks.push_back({tick, tick_text(quantity, tick)});
  return axis;
}

Axis linear_axis(std::string label, Quantity quantity, std::span<const double> values,
                 Better better) {
  Axis axis{.label = std::move(label), .better = better};
  double high = 0;
  for (const double value : usable(values, false)) high = std::max(high, value);
  if (high <= 0) high = 1;
  // Bytes are rounded in binary units, or ticks would read 953.7 MiB.
  const double unit = quantity == Quantity::bytes ? prefix_for(kBytes, high).factor : 1;
  const double rough = high / unit / 5, power = std::pow(10, std::floor(std::log10(rough)));
  double step = 10 * power;
  for (const double candidate : {1.0, 2.0, 5.0})
    if (candidate * power >= rough * (1 - 1e-9)) {
      step = candidate * power;
      break;
    }
  step *= unit;
  axis.max = std::ceil(high / step - 1e-9) * step;
  for (int i = 0; i * step <= axis.max * (1 + 1e-9); ++i)
    axis.ticks.push_back({i * step, tick_text(quantity, i * step)});
  return axis;
}

}  // namespace ridgeline
