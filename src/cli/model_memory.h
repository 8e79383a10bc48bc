// ridgeline memory --model-size: where the memory of whole models goes.
#pragma once

#include <string>

#include "cli/model_options.h"
#include "cli/options.h"

namespace ridgeline {

struct ModelMemoryFlags {
  ModelAxes axes;
  DeviceFlags device;
  std::string results_dir = "results";
  OutputFlags output = {};
  bool measure = false;  // runs a step of every row that fits
  bool dry_run = false;  // writes no files
};

int show_model_memory(const ModelMemoryFlags& flags);

}  // namespace ridgeline
