// Bytes per second and decimal sizes, as data sheets of links and devices give them.
#pragma once

#include <string>
#include <string_view>

namespace ridgeline {

// Bytes per second: accepts 450GB/s, 25GiB/s, and bits as 400Gbit/s; not 0. Throws a usage error
// that names `text`.
double parse_bandwidth(std::string_view text);
std::string format_bandwidth(double bytes_per_s);  // "450 GB/s"

std::string format_decimal_bytes(double bytes);  // "3.52 TB": three significant figures

}  // namespace ridgeline
