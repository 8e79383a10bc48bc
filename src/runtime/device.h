// The interface of a device for executors and studies: memory, a kernel for every op, clocks, and
// speed probes.
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

// The facts reported with a measurement, and those that bound it.
struct DeviceFacts {
  std::string kind;        // "cpu", "cuda"
  std::string isa;         // "avx512", "sm_90a"
  std::string model = {};  // "NVIDIA H200"; the CPU's is a fact of the machine
  int threads = 0;         // of the CPU; 0 on a GPU
  int multiprocessors = 0;
  int64_t l2_bytes = 0;        // of a GPU
  double max_clock_hz = 0;     // of a GPU
  int ordinal = 0;             // of a GPU, in CUDA's order
  std::string bus_id = {};     // of a GPU, whatever the numbering
  bool deterministic = false;  // a GPU set to be bitwise reproducible

  bool is_gpu() const { return multiprocessors > 0; }
};

// Runs a generated kernel. Takes the addresses of the kernel's storages, in its order, null for
// operands that are positions; `scratch`: of fused_scratch() bytes.
using FusedProgram = std::function<void(std::span<void* const> inputs,
                                        std::span<void* const> outputs, void* scratch)>;

// Replays recorded work with one launch.
using RecordedWork = std::function<void()>;

struct Plan;
struct ResidentPlan;

// Runs the beginning of a plan as one kernel (plan/resident.h). Several turns where the plan
// repeats: each continues from what the previous one stored.
using ResidentWork = std::function<void(int turns)>;

// A product with its epilogue.
struct Product {
  TensorView a, b, out;  // `out` is contiguous
  double scale = 1;
  std::optional<TensorView> addend = {};  // contiguous, of the type of `out`
  std::optional<TensorView> bias = {};    // one element per column of `out`, of its dtype
  Activation activation = Activation::none;
};

class ThreadPool;

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;         // "cpu", "cuda"
  virtual std::string description() const = 0;  // for readers: threads, instruction set, libraries
  virtual DeviceFacts facts() const = 0;
  virtual Ledger& ledger() = 0;
  virtual const Ledger& ledger() const = 0;
  // Whether the ledger's memory is separate from the host's, which cannot read it.
  virtual bool has_own_memory() const { return false; }
  // Whether the device runs asynchronously: run() returns before work is done, and an empty queue
  // waits for the next launch.
  virtual bool has_queue() const { return false; }

  // Starts the kernel of a node.
  // `scratch`: scratch() bytes of memory; null: the device allocates it from the ledger.
  virtual void run(const Node& node, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs, void* scratch = nullptr) = 0;
  // Whether products support epilogues; else multiply() throws.
  virtual bool has_epilogues() const { return false; }
  virtual void multiply(const Product& product);
  // Whether compile() supports kernels with a product inside.
  virtual bool has_product_kernels() const { return false; }
  // Whether run() of an AdamW update is faster with these products, its gradients, inside.
  virtual bool prefers_update_products(std::span<const ProductSize> /*products*/) const {
    return false;
  }
  // The times of several ways to do the same: measured once where this device tunes, and cached by
  // `key`; infinite for a way that does not run. Empty: the device does not tune, and has none
  // cached.
  virtual std::optional<std::vector<double>> compare(
      const std::string& /*key*/, size_t /*ways*/,
      const std::function<double(size_t)>& /*time_ms*/) {
    return std::nullopt;
  }
  // The arithmetic that computes the products of an op, which determines its ceiling.
  virtual ProductPath product_path(Op /*op*/, DType dtype) const { return {dtype, 1}; }
  // Memory that a node needs while it runs, beyond its outputs.
  virtual Bytes scratch(const Node& node, std::span<const TensorType> inputs) const = 0;
  // The functions that compile() makes of a kernel, by name; for --explain.
  virtual std::vector<std::string> functions_of(const FusedKernel& kernel) const = 0;
  // Compiles generated kernels, several at a time. Throws an unsupported error without a compiler.
  virtual std::vector<FusedProgram> compile(std::span<const FusedKernel* const> kernels) = 0;
  // Records what `work` launches, so that it can be replayed without running host code. Empty:
  // the device cannot record, and nothing was run.
  virtual bool can_record() const { return false; }
  virtual RecordedWork record(const std::function<void()>& /*work*/) { return nullptr; }
  // Compiles the beginning of a plan as one kernel. `address` returns the memory of inputs, and of
  // results that others read. Empty: not supported, and `why` may give the reason.
  virtual ResidentWork prepare_resident(const Graph& /*graph*/, const Plan& /*plan*/,
                                        const ResidentPlan& /*resident*/,
                                        const std::function<void*(Value)>& /*address*/,
                                        std::string& /*why*/) {
    return nullptr;
  }
  // While work is recorded: what is launched between begin_side() and end_side() runs after all
  // earlier work, but later work need not wait for it until join_side(). Otherwise everything runs
  // in order.
  virtual void begin_side() {}
  virtual size_t end_side() { return 0; }  // a mark for join_side()
  virtual void join_side(size_t /*mark*/) {}
  // An event after the work launched so far, for communicators to wait on; null: it is done.
  virtual EventRef queued_work() { return nullptr; }
  // Work launched from now on waits for the event.
  virtual void wait_for(Event& event) { event.wait(); }
  // The queue for collectives on this device's memory, concurrent with the kernels; null: the
  // memory is the host's, which also runs the collectives.
  virtual DeviceQueue* communication_queue() { return nullptr; }
  // Kernels launched from now on leave this many multiprocessors to collectives, as far as their
  // grid size is a choice: products, and persistent kernels.
  virtual void leave_free(int /*multiprocessors*/) {}
  virtual void synchronize() = 0;
  // Runs `work` and returns its time in milliseconds by the device's clock.
  double time_ms(const std::function<void()>& work) { return time_each_ms({&work, 1})[0]; }
  // The same for consecutive works, without waits in between.
  virtual std::vector<double> time_each_ms(std::span<const std::function<void()>> works) = 0;
  // Runs `work` and returns the milliseconds that the device is busy with it, without waits for the
  // host. Empty: the host was too slow to measure it this time, or the device is the host, and
  // nothing was run.
  virtual std::optional<double> busy_ms(const std::function<void()>& /*work*/) {
    return std::nullopt;
  }
  // Time stamps in a device's queue, for timelines: mark() adds one, take_marks_ms() waits for all
  // and returns each in milliseconds after the first. Without a queue there are none.
  virtual void mark() {}
  virtual std::vector<double> take_marks_ms() { return {}; }
  // A function that overwrites a cache of this size, so that the next work starts with a cold
  // cache: by a queued memset on a GPU, by all threads writing a buffer on a CPU.
  virtual std::function<void()> cache_flush(Bytes cache) = 0;
  // The rungs of the GEMM lab that the device supports, and a function that launches a product with
  // one of them. Throws an unsupported error for other rungs.
  virtual bool has_gemm(GemmRung rung) const { return rung == GemmRung::library; }
  virtual std::function<void()> prepare_gemm(GemmRung rung, const GemmOperands& operands);
  // Register-only probes of the roofline for a dtype: the arithmetic rate that no product exceeds.
  virtual std::vector<ArithmeticProbe> arithmetic_probes(DType /*dtype*/) { return {}; }
  // The ways to move a stream through memory, our own loop or kernel first.
  virtual std::vector<StreamProbe> stream_probes() { return {}; }
  // Seconds spent so far on one-time work: compiling and loading kernels on first use, choosing
  // algorithms, recording launch graphs. 0 where all of that is done before.
  virtual double setup_seconds() const { return 0; }
  // The device's threads, for host work while nothing runs; null: it has none.
  virtual ThreadPool* host_threads() { return nullptr; }
  // Clocks, power and temperature now; empty: unknown.
  virtual std::optional<GpuState> state() const { return std::nullopt; }
  // Device memory in use by all processes, as the driver reports it; empty on a CPU, where the
  // process's memory counts.
  virtual std::optional<Bytes> driver_memory_in_use() const = 0;
  // Fills memory with a pattern that reads as NaN, to reveal what a kernel left unwritten.
  virtual void poison(const TensorView& view) = 0;                    // contiguous
  virtual void clear(const TensorView& view) = 0;                     // contiguous: zeros
  virtual void upload(const TensorView& to, const void* from) = 0;    // contiguous
  virtual void download(const TensorView& from, void* to) const = 0;  // contiguous
};

}  // namespace ridgeline
