// A workload of the comm study: which collective, over how many bytes and ranks, by which backend.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/units.h"
#include "dist/collective.h"

namespace ridgeline {

struct CommWorkload {
  CollectiveKind collective = CollectiveKind::all_reduce;
  Bytes bytes = {};  // of the whole buffer of a rank
  int ranks = 2;
  DType dtype = DType::f32;
  std::string backend = "threads";

  int64_t elements() const { return bytes.count / info(dtype).size; }
};
std::string label(const CommWorkload& workload);  // "gloo all-reduce 1.00 MiB fp32, 4 ranks"

struct CommMatrix {
  std::vector<std::string> backends = {}, collectives = {}, sizes = {}, dtypes = {};
  std::vector<int64_t> ranks = {};
};
// Backends and ranks vary slowest, so that one group of ranks serves many rows. Throws a usage
// error for an invalid name or size.
std::vector<CommWorkload> expand_matrix(const CommMatrix& matrix);

}  // namespace ridgeline
