// Weights of Gemma-3 from the files that people have, under the names of gemma3_parameters().
#pragma once

#include <functional>
#include <string>

#include "models/gemma3_config.h"
#include "models/weight_files.h"

namespace ridgeline {

// A folder, a file or an index (WeightFiles). Reads headers only, and checks all of them. Models
// with a vision tower keep their text model behind a prefix, "language_model.model." in old files
// and "model.language_model." in new ones; `message` gets one line about tensors that are not read:
// those of the tower and its projector, and a head that is stored although it is tied.
WeightFiles open_gemma3_weights(const std::filesystem::path& path, const Gemma3Config& config,
                                const std::function<void(const std::string&)>& message = {});

}  // namespace ridgeline
