// A GPU as a device: kernels of kernels/cuda/ compiled on demand, products by cuBLASLt, one stream.
//
//   CudaDevice device({.ordinal = 0, .tuning = Tuning::quick});
//   EagerExecutor executor(graph, schedule, device);
//   executor.run_all();                                            // loads kernels, takes memory
//   CudaGraph steps = device.capture([&] { executor.run_all(); });
//   device.time_ms([&] { steps.launch(); });
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "runtime/cuda/busy_clock.h"
#include "runtime/cuda/communication_queue.h"
#include "runtime/cuda/cuda_memory.h"
#include "runtime/cuda/kernel_store.h"
#include "runtime/cuda/matmul.h"
#include "runtime/cuda/movable_launches.h"
#include "runtime/cuda/queue.h"
#include "runtime/cuda/tuner.h"
#include "runtime/device.h"

namespace ridgeline {

struct CudaOptions {
  int ordinal = 0;
  std::optional<Bytes> budget = {};  // none: the GPU's free memory less a margin
  Tuning tuning = Tuning::off;
  // Uses the first of the library's algorithms instead of the fastest measured one: bitwise
  // reproducible.
  bool deterministic = false;
  std::optional<size_t> variant =
      {};  // of kernels that have several: forces this one, or the last if fewer
  // The caller's stream, which outlives the device; none: the device creates one.
  std::optional<cuda::Stream> stream = {};
  JitOptions jit = {};        // `arch` is ignored: it is the GPU's
  LedgerOptions ledger = {};  // its budget is `budget`
};

// Recorded work that replays with one launch. It must not outlive its device, and uses the memory
// that it was recorded with: nothing else may be allocated between its launches.
class CudaGraph {
 public:
  explicit operator bool() const { return executable_ != nullptr; }
  void launch() const;

 private:
  friend class CudaDevice;
  CudaGraph(CudaQueue& queue, cuda::LaunchGraphExec executable)
      : queue_(&queue), executable_(executable) {}

  struct Destroy {
    void operator()(cuda::LaunchGraphExec executable) const;
  };
  CudaQueue* queue_;
  std::unique_ptr<cuda::LaunchGraphExecTag, Destroy> executable_;
};

// A node with planned launches.
struct PreparedNode {
  MovableLaunches plan;
  std::vector<cuda::Function> functions;  // of each launch, once loaded
};

class CudaDevice : public Device {
 public:
  // Throws an unsupported error when there is no driver or GPU, a usage error when there is no GPU
  // with that ordinal.
  explicit CudaDevice(CudaOptions options = {});
  ~CudaDevice() override;

  std::string name() const override { return "cuda"; }
  std::string description() const override;
  DeviceFacts facts() const override;
  Ledger& ledger() override { return ledger_; }
  const Ledger& ledger() const override { return ledger_; }
  bool has_own_memory() const override { return true; }
  bool has_queue() const override { return true; }

  void run(const Node& node, std::span<const TensorView> inputs,
           std::span<const TensorView> outputs, void* scratch = nullptr) override;
  bool has_epilogues() const override { return true; }
  bool has_product_kernels() const override;
  bool prefers_update_products(std::span<const ProductSize> products) const override;
  void multiply(const Product& product) override;
  std::optional<std::vector<double>> compare(const std::string& key, size_t ways,
                                             const std::function<double(size_t)>& time_ms) override;
  ProductPath product_path(Op op, DType dtype) const override;
  Bytes scratch(const Node& node, std::span<const TensorType> inputs) const override;
  std::vector<FusedProgram> compile(std::span<const FusedKernel* const> kernels) override;
  RecordedWork record(const std::function<void()>& work) override;
  ResidentWork prepare_resident(const Graph& graph, const Plan& plan, const ResidentPlan& resident,
                                const std::function<void*(Value)>& address,
                                std::string& why) override;
  std::vector<std::string> functions_of(const FusedKernel& kernel) const override;
  bool can_record() const override { return true; }
  void begin_side() override { queue_.begin_side(); }
  size_t end_side() override { return queue_.end_side(); }
  void join_side(size_t mark) override { queue_.join_side(mark); }
  EventRef queued_work() override;
  void wait_for(Event& event) override;
  DeviceQueue* communication_queue() override;
  void leave_free(int multiprocessors) override {
    usable_.multiprocessors = facts_.multiprocessors - multiprocessors;
    usable_.reserved_multiprocessors = multiprocessors;
  }
  void synchronize() override;
  std::vector<double> time_each_ms(std::span<const std::function<void()>> works) override;
  std::optional<double> busy_ms(const std::function<void()>& work) override;
  void mark() override;
  std::vector<double> take_marks_ms() override;
  // Writes twice the size of the L2, whatever size was requested.
  std::function<void()> cache_flush(Bytes cache) override;
  bool has_gemm(GemmRung rung) const override { return rung != GemmRung::simd; }
  std::function<void()> prepare_gemm(GemmRung rung, const GemmOperands& operands) override;
  std::vector<StreamProbe> stream_probes() override;
  double setup_seconds() const override { return queue_.setup().seconds(); }
  std::optional<GpuState> state() const override;
  std::optional<Bytes> driver_memory_in_use() const override;
  void poison(const TensorView& view) override;
  void clear(const TensorView& view) override;
  void upload(const TensorView& to, const void* from) override;
  void download(const TensorView& from, void* to) const override;

  // The driver's copy between two contiguous tensors of equal size, in stream order.
  void copy(const TensorView& from, const TensorView& to);
  // Plans a node without constants and products. `scratch`: scratch() bytes, or any address with
  // the same alignment.
  PreparedNode prepare(const Node& node, std::span<const TensorView> inputs,
                       std::span<const TensorView> outputs, void* scratch);
  // Loads the kernels of prepared nodes; new ones are compiled in parallel.
  void load(std::span<PreparedNode> prepared);
  // Kernels of prepared nodes that are not loaded. To keep load() from compiling, compile them with
  // jit() on any thread, and pass the codes.
  std::vector<CudaKernel> missing(std::span<const PreparedNode> prepared) const;
  void load(std::span<const CudaKernel> kernels, std::span<const MachineCode> codes) {
    kernels_.load(kernels, codes);
  }
  // Launches it with `addresses` of inputs, outputs and scratch. The context must be current.
  void start(PreparedNode& prepared, std::span<void* const> addresses);
  // Launches a kernel directly, for work that is not a node of a graph.
  void launch(const CudaLaunch& launch);
  // Records what `work` launches instead of running it. Throws a usage error if that needs memory
  // from the driver, a new kernel or a new algorithm: run it once before.
  CudaGraph capture(const std::function<void()>& work);
  void launch(const CudaGraph& graph) { graph.launch(); }

  const CudaFacts& cuda_facts() const { return facts_; }
  const CudaChooser& chooser() const { return choose_; }
  const CudaJit& jit() const { return kernels_.jit(); }
  cuda::Stream stream() const { return queue_.stream(); }
  CudaQueue& queue() { return queue_; }

 private:
  void fill(const TensorView& view, unsigned char byte, const char* what);
  void flush_l2();

  PrimaryContext context_;
  mutable CudaQueue queue_;
  int ordinal_;
  bool deterministic_;
  CudaFacts facts_;
  CudaFacts usable_;  // facts_ less the multiprocessors that are left free
  std::string bus_id_, driver_version_;
  CudaMemory memory_;
  Ledger ledger_;
  KernelStore kernels_;
  CudaTuner tuner_;
  CudaChooser choose_;
  CudaMatmul matmul_;
  BusyClock busy_clock_;
  CudaBuffer flush_buffer_;
  CudaEvents events_;
  std::unique_ptr<CudaCommunicationQueue> communication_;  // created on first use
};

}  // namespace ridgeline
