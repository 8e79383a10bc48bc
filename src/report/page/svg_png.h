// SVG to PNG by the system's librsvg and cairo, opened when asked for: the program links neither.
#pragma once

#include <filesystem>
#include <string>

namespace ridgeline {

// `pixels_per_unit` 2 gives a picture of 1440 pixels from an SVG of 720 units. Throws an
// unsupported error that names the package where a library is missing.
void write_png(const std::filesystem::path& path, const std::string& svg,
               double pixels_per_unit = 2);

}  // namespace ridgeline
