// One row of the generate study that a worker runs: same weights, same prompt, greedy decoding.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <vector>

#include "graph/dtype.h"
#include "measure/protocol.h"
#include "measure/record.h"
#include "runtime/device.h"
#include "studies/peers/worker.h"

namespace ridgeline {

struct PeerText {
  std::filesystem::path folder;  // config.json and weights, as transformers reads them
  std::vector<int32_t> prompt;
  int64_t new_tokens = 1;
  int64_t batch_size = 1;
  int64_t capacity = 64;
  DType dtype = DType::bf16;
  Protocol protocol = {};  // of the prefill
  std::function<bool()> interrupted = {};
};

// Fills in series, memory and tokens; nullopt if interrupted.
std::optional<Record> run_worker_text(Worker& worker, Device& device, const PeerText& text,
                                      Record described);

}  // namespace ridgeline
