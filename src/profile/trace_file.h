// Files of traces, which are large and repetitive.
#pragma once

#include <filesystem>
#include <functional>

#include "base/file_io.h"

namespace ridgeline {

// As write_file_atomically(), and compressed if the name ends in ".gz".
void write_trace_file(const std::filesystem::path& path,
                      const std::function<void(const Append&)>& content);

}  // namespace ridgeline
