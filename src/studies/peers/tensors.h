// Tensors exchanged with a worker as files of raw elements: inputs for it, and its results.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/temporary.h"
#include "kernels/reference/attention_oracle.h"
#include "models/attention.h"

namespace ridgeline {

// A temporary folder, created on first use and removed by the destructor. Each tensor is one file
// of its name: batch, heads, sequence, width, contiguous, in the problem's dtype.
class WorkerTensors {
 public:
  const std::filesystem::path& folder() const { return folder_->path(); }  // after provide()

  // Writes q, k, v and d_output with the same values as our own rows, unless they are already
  // there. Removes the results of earlier rows.
  void provide(const AttentionConfig& config, uint64_t seed, const RangeRunner& run);

  // Returns one head of a tensor. Throws wrong_result if the file does not have the expected size.
  std::vector<double> read(const AttentionConfig& config, const std::string& tensor,
                           int64_t head) const;

 private:
  std::unique_ptr<TemporaryDirectory> folder_;
  std::string provided_;  // identifies the inputs in the folder
};

}  // namespace ridgeline
