// Tensors that a worker shares with us as files of raw elements: inputs from us, results from it.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "base/temporary.h"
#include "kernels/reference/attention_oracle.h"
#include "models/attention.h"

namespace ridgeline {

// A folder of its own, made when a worker first needs one and removed at the end. Each tensor is
// one file of its name: batch, heads, sequence, width, contiguous, in the problem's dtype.
class WorkerTensors {
 public:
  const std::filesystem::path& folder() const { return folder_->path(); }  // once provided

  // Writes q, k, v and d_output with the same values as our own rows have; nothing when they are
  // there already. Removes the results of earlier rows.
  void provide(const AttentionConfig& config, uint64_t seed, const RangeRunner& run);

  // One head of a tensor. Throws a wrong_result error when the file is not as long as it must be.
  std::vector<double> read(const AttentionConfig& config, const std::string& tensor,
                           int64_t head) const;

 private:
  std::unique_ptr<TemporaryDirectory> folder_;
  std::string provided_;  // what the inputs are of
};

}  // namespace ridgeline
