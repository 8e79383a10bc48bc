// Converts SVG to PNG with the system's librsvg and cairo, which are opened at run time.
#pragma once

#include <filesystem>
#include <string>

namespace ridgeline {

// With 2 `pixels_per_unit`, an SVG of 720 units becomes 1440 pixels wide. Throws an unsupported
// error that names the package if a library is missing.
void write_png(const std::filesystem::path& path, const std::string& svg,
               double pixels_per_unit = 2);

}  // namespace ridgeline
