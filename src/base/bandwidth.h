// Bandwidths and decimal sizes, in the units of data sheets.
#pragma once

#include <string>
#include <string_view>

namespace ridgeline {

// Returns bytes per second; accepts 450GB/s, 25GiB/s and 400Gbit/s, but not 0. Throws a usage error
// that names `text`.
double parse_bandwidth(std::string_view text);
std::string format_bandwidth(double bytes_per_s);  // "450 GB/s"

std::string format_decimal_bytes(double bytes);  // "3.52 TB": three significant figures

}  // namespace ridgeline
