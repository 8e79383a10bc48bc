// What executors and studies need of a device: memory, a kernel for every op, clocks, and probes of
// its speed.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cost/product_paths.h"
#include "dist/device_queue.h"
#include "graph/graph.h"
#include "kernels/gemm_rung.h"
#include "kernels/tensor_view.h"
#include "plan/epilogue.h"
#include "plan/fused_kernel.h"
#include "plan/product_size.h"
#include "runtime/gpu_state.h"
#include "runtime/ledger.h"
#include "runtime/rate_probe.h"

namespace ridgeline {

// What stands beside a figure, and what bounds it.
struct DeviceFacts {
  std::string kind;        // "cpu", "cuda"
  std::string isa;         // "avx512", "sm_90a"
  std::string model = {};  // "NVIDIA H200"; the CPU's is a fact of the machine
  int threads = 0;         // of the CPU; 0 on a GPU
  int multiprocessors = 0;
  int64_t l2_bytes = 0;        // of a GPU
  double max_clock_hz = 0;     // of a GPU
  int ordinal = 0;             // of a GPU, as CUDA counts
  std::string bus_id = {};     // of a GPU: which one it is, whoever counts
  bool deterministic = false;  // a GPU that was told to give the same bits from run to run

  bool is_gpu() const { return multiprocessors > 0; }
};

// A generated kernel that is ready to run.
class FusedProgram {
 public:
  virtual ~FusedProgram() = default;
  // Addresses of the kernel's storages, in its order; null for operands that are positions.
  // `scratch`: as much as fused_scratch() says.
  virtual void run(std::span<void* const> inputs, std::span<void* const> outputs,
                   void* scratch) = 0;
};

// Work that was recorded and can be started at once.
class RecordedWork {
 public:
  virtual ~RecordedWork() = default;
  virtual void start() = 0;
};

struct Plan;
struct ResidentPlan;

// The beginning of a plan as one kernel (plan/resident.h).
class ResidentWork {
 public:
  virtual ~ResidentWork() = default;
  // Several turns where the plan repeats: each goes on from what the one before stored.
  virtual void run(int turns) = 0;
};

// A product with its epilogue.
struct Product {
  TensorView a, b, out;  // `out` is contiguous
  double scale = 1;
  std::optional<TensorView> addend = {};  // contiguous, of the type of `out`
  std::optional<TensorView> bias = {};    // one element for each column of `out`, of its dtype
  Activation activation = Activation::none;
};

class ThreadPool;

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;         // "cpu", "cuda"
  virtual std::string description() const = 0;  // for people: threads, instruction set, libraries
  virtual DeviceFacts facts() const = 0;
  virtual Ledger& ledger() = 0;
  virtual const Ledger& ledger() const = 0;
  // Whether the ledger's memory is apart from the host's, which cannot read it.
  virtual bool has_own_memory() const { return false; }
  // Whether work waits in a queue of the device's own, so that run() returns before it is done, and
  // a queue that has run dry waits for the next launch.
  virtual bool has_queue() const { return false; }

  // Starts the kernel of a node.
  // `scratch`: as much memory as scratch() says; null: the device takes it of the ledger.
  virtual void run(const Node& node, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs, void* scratch = nullptr) = 0;
  // Whether products take an epilogue; else multiply() throws.
  virtual bool has_epilogues() const { return false; }
  virtual void multiply(const Product& product);
  // Whether compile() takes kernels with a product inside.
  virtual bool has_product_kernels() const { return false; }
  // Whether run() of an AdamW update is faster with these products, its gradients, inside.
  virtual bool prefers_update_products(std::span<const ProductSize> /*products*/) const {
    return false;
  }
  // The times of several ways to do the same: taken once where this device tunes, and remembered by
  // `key`; infinite where one does not run. Nothing: the device does not tune, and remembers none.
  virtual std::optional<std::vector<double>> compare(
      const std::string& /*key*/, size_t /*ways*/,
      const std::function<double(size_t)>& /*time_ms*/) {
    return std::nullopt;
  }
  // Which arithmetic makes the products of an op: what its ceiling is.
  virtual ProductPath product_path(Op /*op*/, DType dtype) const { return {dtype, 1}; }
  // Memory that a node needs while it runs, beyond its outputs.
  virtual Bytes scratch(const Node& node, std::span<const TensorType> inputs) const = 0;
  // The functions that compile() makes of a kernel, by name; for --explain.
  virtual std::vector<std::string> functions_of(const FusedKernel& kernel,
                                                const EmitOptions& options) const = 0;
  // Compiles generated kernels, several at a time. Throws an unsupported error without a compiler.
  virtual std::vector<std::unique_ptr<FusedProgram>> compile(
      std::span<const FusedKernel* const> kernels, const EmitOptions& options) = 0;
  // Records what `work` starts, so that it can be started again without this program's help. Null:
  // the device cannot, and nothing was run.
  virtual bool can_record() const { return false; }
  virtual std::unique_ptr<RecordedWork> record(const std::function<void()>& /*work*/) {
    return nullptr;
  }
  // Compiles the beginning of a plan as one kernel. `address` gives the memory of inputs, and of
  // what it leaves for others. Null: the device has none, and `why` says so where that is worth a
  // line.
  virtual std::unique_ptr<ResidentWork> prepare_resident(
      const Graph& /*graph*/, const Plan& /*plan*/, const ResidentPlan& /*resident*/,
      const std::function<void*(Value)>& /*address*/, std::string& /*why*/) {
    return nullptr;
  }
  // While work is recorded: what is started between begin_side() and end_side() comes after all
  // that was started before, but what follows need not wait for it until join_side(). Elsewhere
  // everything runs in order.
  virtual void begin_side() {}
  virtual size_t end_side() { return 0; }  // a mark for join_side()
  virtual void join_side(size_t /*mark*/) {}
  // The work that was started so far, as a communicator can wait for it; null: it is done.
  virtual EventRef queued_work() { return nullptr; }
  // What is started from now on comes after the event.
  virtual void wait_for(Event& event) { event.wait(); }
  // The queue beside the kernels on which ranks communicate this device's memory; null: its memory
  // is the host's, and so are collectives.
  virtual DeviceQueue* communication_queue() { return nullptr; }
  // Kernels that are started from now on leave so many multiprocessors to collectives, as far as
  // their number is chosen: products, and kernels that stay until their work is done.
  virtual void leave_free(int /*multiprocessors*/) {}
  virtual void synchronize() = 0;
  // Runs `work` and gives its time in milliseconds by the device's own clock.
  double time_ms(const std::function<void()>& work) { return time_each_ms({&work, 1})[0]; }
  // The same of works that follow each other; nothing waits between them.
  virtual std::vector<double> time_each_ms(std::span<const std::function<void()>> works) = 0;
  // Runs `work` and gives the milliseconds that the device itself is busy with it, without waits
  // for the host. Empty: the host was too slow to tell this time, or the device is the host, and
  // nothing was run.
  virtual std::optional<double> busy_ms(const std::function<void()>& /*work*/) {
    return std::nullopt;
  }
  // Moments between the works of a device's queue, for timelines: mark() adds one, take_marks_ms()
  // waits for all and gives each in milliseconds after the first. Without a queue there are none.
  virtual void mark() {}
  virtual std::vector<double> take_marks_ms() { return {}; }
  // A function that overwrites a cache of this size, so that whatever is started next finds nothing
  // in it: by a memset that is queued on a GPU, by a walk of all threads over a buffer on a CPU.
  virtual std::function<void()> cache_flush(Bytes cache) = 0;
  // The rungs of the GEMM lab that the device has, and what starts a product by one of them. Throws
  // an unsupported error for a rung that it has not.
  virtual bool has_gemm(GemmRung rung) const { return rung == GemmRung::library; }
  virtual std::function<void()> prepare_gemm(GemmRung rung, const GemmOperands& operands);
  // What the roofline times on registers alone for a dtype: the arithmetic that no product exceeds.
  virtual std::vector<ArithmeticProbe> arithmetic_probes(DType /*dtype*/) { return {}; }
  // The ways to move a stream through memory, our own loop or kernel first.
  virtual std::vector<StreamProbe> stream_probes() { return {}; }
  // How long it has worked so far on what happens once: compiling and loading kernels when they are
  // met first, choosing algorithms, recording launch graphs. 0 where all of that is done before.
  virtual double setup_seconds() const { return 0; }
  // The device's own threads, for work of the host while nothing runs; null: it has none.
  virtual ThreadPool* host_threads() { return nullptr; }
  // Clocks, power and temperature now; empty: the device cannot tell.
  virtual std::optional<GpuState> state() const { return std::nullopt; }
  // What the driver says is in use, by everybody; empty on a CPU, where the process is asked.
  virtual std::optional<Bytes> driver_memory_in_use() const = 0;
  // Fills memory with a pattern that reads as NaN, so that what a kernel left unwritten shows.
  virtual void poison(const TensorView& view) = 0;                    // contiguous
  virtual void clear(const TensorView& view) = 0;                     // contiguous: zeros
  virtual void upload(const TensorView& to, const void* from) = 0;    // contiguous
  virtual void download(const TensorView& from, void* to) const = 0;  // contiguous
};

}  // namespace ridgeline
