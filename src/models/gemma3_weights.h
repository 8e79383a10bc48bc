// Weights of Gemma-3 from published files, under the names of gemma3_parameters().
#pragma once

#include <functional>
#include <string>

#include "models/gemma3_config.h"
#include "models/weight_files.h"

namespace ridgeline {

// A folder, a file or an index (WeightFiles). Reads headers only, and checks all of them. Models
// with a vision tower keep their text model under a prefix, "language_model.model." in old files
// and "model.language_model." in new ones; `message` gets one line about tensors that are not read:
// those of the tower and its projector, and a stored copy of a tied head.
WeightFiles open_gemma3_weights(const std::filesystem::path& path, const Gemma3Config& config,
                                const std::function<void(const std::string&)>& message = {});

}  // namespace ridgeline
