// Runs generated C++ kernels: fills in their arguments and divides rows among threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "codegen/emit.h"
#include "kernels/cpu/context.h"

namespace ridgeline {

// As in host_preamble().
struct HostOperand {
  void* data = nullptr;
  long long column = 0;
  const long long* rows = nullptr;
};

using HostFunction = void (*)(const HostOperand* inputs, const HostOperand* outputs,
                              const float* constants, const long long* sizes, long long first_row,
                              long long last_row, long long first_column, long long last_column,
                              float* scratch);

class CpuFusedKernel {
 public:
  CpuFusedKernel(const FusedKernel& kernel, HostText text, HostFunction function);

  // `inputs` and `outputs` are the storages' addresses, in the kernel's order; null for positions.
  // `scratch`: fused_scratch(kernel) bytes.
  void run(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch,
           const CpuContext& context) const;

 private:
  struct Steps {
    std::vector<long long> rows;
    long long column;
    int64_t offset;  // in bytes; of a position: in elements
    bool is_position;
    DType dtype;
  };
  struct Fold {
    Op op;
    DType dtype;
  };

  static Steps steps_of(const FusedWalk::Steps& walk, const FusedOperand& operand);
  void run_rows(const HostOperand* inputs, const HostOperand* outputs,
                const CpuContext& context) const;
  void run_columns(const HostOperand* inputs, const HostOperand* outputs, float* parts,
                   const CpuContext& context) const;

  HostFunction function_;
  std::vector<float> constants_;
  std::vector<long long> sizes_;
  std::vector<Steps> inputs_, outputs_;
  std::vector<Fold> folds_;  // of a column kernel, in the order of its text
  std::vector<size_t> fold_of_result_;
  int64_t rows_, columns_, parts_, kept_rows_;
  bool folds_rows_;
};

}  // namespace ridgeline
