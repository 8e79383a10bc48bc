#include "studies/comm/workload.h"

#include <fmt/format.h>

#include "base/error.h"
#include "dist/device_communicator.h"
#include "studies/ranks/group.h"

namespace ridgeline {
namespace {

constexpr int64_t kMostCommRanks = 256;

Bytes parse_buffer(const std::string& text, DType dtype) {
  const Bytes bytes = parse_bytes(text);
  const int64_t whole = bytes.count / info(dtype).size * info(dtype).size;
  if (whole > 0) return {whole};
  throw Error(ErrorKind::usage, fmt::format("a buffer of {} holds no element", text),
              "give at least 4 bytes, such as 1MB");
}

}  // namespace

std::string label(const CommWorkload& workload) {
  return fmt::format("{} {} {} {}, {} ranks", workload.backend, name(workload.collective),
                     to_string(workload.bytes), info(workload.dtype).name, workload.ranks);
}

std::vector<CommWorkload> expand_matrix(const CommMatrix& matrix) {
  std::vector<CommWorkload> workloads;
  for (const std::string& backend : matrix.backends) {
    kRankBackends.find(backend);
    if (backend == kNcclBackend)
      throw Error(ErrorKind::usage,
                  "buffers are in the memory of the host, which NCCL does not serve",
                  "`ridgeline ddp --device cuda --backend nccl` trains by it");
    for (const int64_t ranks : matrix.ranks) {
      if (ranks < 2 || ranks > kMostCommRanks)
        throw Error(ErrorKind::usage, fmt::format("{} ranks were asked for", ranks),
                    fmt::format("give 2 to {}", kMostCommRanks));
      for (const std::string& collective : matrix.collectives)
        for (const std::string& dtype : matrix.dtypes) {
          const DType type = parse_float_dtype(dtype);
          if (type == DType::tf32)
            throw Error(ErrorKind::usage, "a collective in tf32 was asked for",
                        "tf32 is stored as fp32: give fp32, bf16 or fp16");
          for (const std::string& size : matrix.sizes)
            workloads.push_back({parse_collective(collective), parse_buffer(size, type),
                                 static_cast<int>(ranks), type, backend});
        }
    }
  }
  return workloads;
}

}  // namespace ridgeline
