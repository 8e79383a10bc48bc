// The CPU behind the C interface: the flash kernels on a pool of threads.
#include <algorithm>
#include <new>

#include "api/context.h"
#include "api/fork_count.h"
#include "api/operand_sums.h"
#include "base/error.h"
#include "base/machine_limits.h"
#include "kernels/cpu/kernels.h"
#include "kernels/host_values.h"

namespace ridgeline {
namespace {

// The threads of a context. A process that was forked has none of them and starts its own; the
// others' cannot be ended here, so their memory is left.
class Threads {
 public:
  explicit Threads(int count) : pool_(std::make_unique<ThreadPool>(count)) {}
  void check_fork() {
    if (made_after_ == fork_count()) return;
    const int count = pool_->threads();
    static_cast<void>(pool_.release());
    pool_ = std::make_unique<ThreadPool>(count);
    made_after_ = fork_count();
  }
  // Of a forked process that makes no more calls.
  ~Threads() {
    if (made_after_ != fork_count()) static_cast<void>(pool_.release());
  }
  ThreadPool& pool() { return *pool_; }

 private:
  int made_after_ = fork_count();
  std::unique_ptr<ThreadPool> pool_;
};

class CpuCall : public PreparedCall {
 public:
  CpuCall(AttentionCall call, Threads& threads, Isa isa)
      : call_(std::move(call)), sums_(operand_sums_of(call_)), threads_(threads), isa_(isa) {
    for (const OperandSums& each : sums_.list) call_.outputs[each.output] = each.sums;
  }

  void run(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    for (size_t i = 0; i < inputs.size(); ++i) call_.inputs[i].data = inputs[i];
    for (size_t i = 0; i < outputs.size(); ++i) call_.outputs[i].data = outputs[i];
    for (const OperandSums& each : sums_.list)
      if (!each.direct) call_.outputs[each.output].data = static_cast<char*>(scratch) + each.offset;
    const KernelCall kernel{call_.node, call_.inputs, call_.outputs};
    const CpuContext context{.pool = threads_.pool(), .isa = isa_};
    if (call_.node.op == Op::attention)
      attention_kernel(kernel, context);
    else
      attention_gradient_kernel(kernel, context);
    for (const OperandSums& each : sums_.list)
      if (!each.direct) add_up(call_.outputs[each.output], each.result, outputs[each.output]);
  }

 private:
  // Sums come in tiles along the axes of queries and keys over which an operand is broadcast.
  void add_up(const TensorView& sums, const TensorView& result, void* to) const {
    constexpr int64_t kGrain = 4096;
    const Shape &from = sums.shape, &shape = result.shape;
    const int64_t row_tiles = from[2] / shape[2], column_tiles = from[3] / shape[3];
    const auto* values = sums.as<float>();
    threads_.pool().for_range(element_count(shape), kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t column = i % shape[3], row = i / shape[3] % shape[2],
                      head = i / (shape[3] * shape[2]);
        float sum = 0;
        for (int64_t r = 0; r < row_tiles; ++r)
          for (int64_t c = 0; c < column_tiles; ++c)
            sum += values[(head * from[2] + row * row_tiles + r) * from[3] + column * column_tiles +
                          c];
        store_one(result.dtype, sum, to, i);
      }
    });
  }

  AttentionCall call_;
  OperandSumsPlan sums_;
  Threads& threads_;
  Isa isa_;
};

class Cpu : public AttentionDevice {
 public:
  explicit Cpu(int threads) : threads_(threads), isa_(default_isa()) {}

  void enter(void* const* stream) override {
    if (stream != nullptr)
      throw Error(ErrorKind::usage, "uses_stream is 1 on the CPU, which has no streams",
                  "set it to 0");
    threads_.check_fork();
  }
  void leave() noexcept override {}
  // The kernels take by themselves what else they need.
  Bytes scratch(const AttentionCall& call) const override { return operand_sums_of(call).bytes; }
  std::unique_ptr<PreparedCall> prepare(const AttentionCall& call, ContextTurn&) override {
    return std::make_unique<CpuCall>(call, threads_, isa_);
  }
  void* workspace(Bytes bytes) override {
    if (bytes > held_) {
      memory_.reset();
      held_ = {};
      memory_.reset(static_cast<char*>(::operator new(static_cast<size_t>(bytes.count), kAligned)));
      held_ = bytes;
    }
    return memory_.get();
  }
  void synchronize() override {}

 private:
  static constexpr std::align_val_t kAligned{kWorkspaceAlignment};
  struct Free {
    void operator()(char* data) const { ::operator delete(data, kAligned); }
  };

  Threads threads_;
  Isa isa_;
  std::unique_ptr<char, Free> memory_;
  Bytes held_;
};

}  // namespace

std::unique_ptr<AttentionDevice> open_cpu(const rl_context_params& params) {
  if (params.uses_stream != 0)
    throw Error(ErrorKind::usage, "params.uses_stream is 1 on the CPU, which has no streams",
                "set it to 0");
  return std::make_unique<Cpu>(params.threads == 0 ? available_threads() : params.threads);
}

}  // namespace ridgeline
