// The input values of a part of a layer, and the expected result of the last token.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compile/executable.h"
#include "runtime/device.h"
#include "studies/decode/workload.h"

namespace ridgeline {

// The sequences of a batch alternate between two texts, so that a mix-up of sequences shows.
inline constexpr int64_t kLayerTexts = 2;

struct LastTokens {
  std::vector<std::vector<double>> texts;  // [texts][hidden_size]
  double tolerance = 0;
};

class LayerValues {
 public:
  LayerValues(Device& device, uint64_t seed) : device_(device), seed_(seed) {}

  // Fills every input of the workload's graph: initial weights, hidden states, and caches as the
  // prompt leaves them.
  void load(const LayerWorkload& workload, Executable& executable);

  // Computes the last tokens in fp32 by the plain form, one kernel per node, over the whole
  // sequence without a cache. The tolerance is twice the error of the same in the workload's dtype,
  // plus a floor.
  const LastTokens& expected(const LayerWorkload& workload);
  // Reads the last tokens of the executable's last run.
  std::vector<std::vector<double>> last_tokens(const LayerWorkload& workload,
                                               const Executable& executable) const;

 private:
  std::vector<float> values_of(const LayerWorkload& workload, const TensorType& type,
                               const std::string& name);
  void fill(const LayerWorkload& workload, const Graph& graph, Executable& executable);
  void fill_caches(const LayerWorkload& workload, Executable& executable);
  std::vector<std::vector<double>> run_plain(LayerWorkload workload, DType dtype);
  const std::vector<float>& weights(const LayerWorkload& workload, const std::string& name);

  Device& device_;
  uint64_t seed_;
  std::string weights_of_;  // identity of the layer that weights_ belong to
  std::map<std::string, std::vector<float>, std::less<>> weights_;
  std::map<std::string, LastTokens> expected_;
};

}  // namespace ridgeline
