// A strong type for bytes, and sizes, durations and bandwidths as text ("4GiB", "1.5 ms",
// "25GB/s").
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

namespace ridgeline {

// Saturating sums and differences, for counts from files, which may have any value.
constexpr int64_t bounded_sum(int64_t a, int64_t b) {
  int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? INT64_MIN : INT64_MAX;
}
constexpr int64_t bounded_difference(int64_t a, int64_t b) {
  int64_t difference = 0;
  if (!__builtin_sub_overflow(a, b, &difference)) return difference;
  return a < 0 ? INT64_MIN : INT64_MAX;
}
// The integer part, saturated; NaN becomes 0.
constexpr int64_t bounded_integer(double value) {
  if (value >= 0x1p63) return INT64_MAX;
  if (value < -0x1p63) return INT64_MIN;
  return value == value ? static_cast<int64_t>(value) : 0;
}

// A number of bytes; never an element count.
struct Bytes {
  int64_t count = 0;

  constexpr auto operator<=>(const Bytes&) const = default;
  constexpr Bytes& operator+=(Bytes other) { return *this = *this + other; }
  constexpr Bytes& operator-=(Bytes other) { return *this = *this - other; }
  friend constexpr Bytes operator+(Bytes a, Bytes b) { return {bounded_sum(a.count, b.count)}; }
  friend constexpr Bytes operator-(Bytes a, Bytes b) {
    return {bounded_difference(a.count, b.count)};
  }
  constexpr double mebibytes() const { return static_cast<double>(count) / (1024.0 * 1024.0); }
};

// "512 B", "20.0 MiB", "8.00 GiB": three significant figures, binary units.
std::string to_string(Bytes bytes);

// Accepts 1024, 64KiB, 1.5GiB, 4G (binary), 8GB (decimal). Throws a usage error that names `text`.
Bytes parse_bytes(std::string_view text);

// "850 ns", "12.3 us", "4.56 ms", "1.23 s", "2 min 5 s".
std::string format_seconds(double seconds);

// Accepts 2, 2s, 500ms, 5us, 1.5min. Throws a usage error that names `text`.
double parse_seconds(std::string_view text);

// Returns bytes per second; accepts 450GB/s, 25GiB/s and 400Gbit/s, but not 0. Throws a usage error
// that names `text`.
double parse_bandwidth(std::string_view text);
std::string format_bandwidth(double bytes_per_s);  // "450 GB/s"

std::string format_decimal_bytes(double bytes);  // "3.52 TB": three significant figures

}  // namespace ridgeline
