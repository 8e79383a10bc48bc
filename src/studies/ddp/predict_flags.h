// Flags of the calculator: the network and the device that it assumes.
#pragma once

#include <string>

#include "studies/ddp/predict.h"
#include "studies/flags.h"

namespace ridgeline {

struct PredictFlags {
  bool asked = false;
  std::string bandwidth = "450GB/s";  // NVLink 4 of an H100, in one direction
  std::string latency = "5us";
  std::string network_bandwidth = "50GB/s";  // a 400 Gbit/s adapter for each rank
  std::string network_latency = "15us";
  int ranks_per_node = 8;
  std::string dtype = "bf16";
  Words gpus = {"H100-SXM"};
  double peak_tflops = 0;          // 0: the GPU's data sheet
  std::string device_memory = {};  // empty: the GPU's data sheet
  double utilisation = 0.5;
  std::vector<int64_t> mesh = {};  // fsdp and tensor-parallel ranks; empty: no mesh
  std::vector<int64_t> mesh_links = {1, 1};
};

inline constexpr const char* kPredict = "--predict";
// Adds --predict and the flags that need it.
void add_predict_flags(Flags& flags, PredictFlags* predict);

// The options that these flags determine. Throws usage errors.
PredictOptions predict_options(const PredictFlags& flags);

}  // namespace ridgeline
