// A device that runs nothing: it notes what the executors start, as a CPU or a GPU would get it.
//
//   RecordingDevice device(Target::hopper);
//   EagerExecutor(graph, schedule, device).run_all();
//   device.launches();   // one for each kernel, in order
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cstring>
#include <string>
#include <vector>

#include "base/sha256.h"
#include "codegen/emit.h"
#include "jit/cuda_jit.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/pointwise/fused.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "kernels/cuda/training/product_update.h"
#include "runtime/device.h"

namespace ridgeline::testing {

enum class Target { cpu, ampere, hopper };

// One kernel that was started.
struct RecordedLaunch {
  std::string name;       // short: "matmul", "pointwise add", "generated"
  std::string kernel;     // everything but memory: text, constants, grid; or types of the operands
  std::string arguments;  // addresses, and what else the kernel is passed
};

// Addresses that nobody may read, the same in every run.
class ImaginaryMemory : public MemorySource {
 public:
  void* acquire(Bytes bytes, std::string&) override {
    constexpr int64_t kPage = 4096;
    const int64_t begin = next_;
    next_ += (bytes.count + kPage - 1) / kPage * kPage;
    return reinterpret_cast<void*>(begin);
  }
  void give_back(void*, Bytes) override {}

 private:
  int64_t next_ = int64_t{1} << 40;
};

inline std::string short_hash(std::string_view text) {
  return to_hex(sha256(text)).substr(0, 12);
}

inline CudaFacts facts_of(Target target) {
  if (target == Target::ampere)
    return {.name = "NVIDIA A100-SXM4-80GB",
            .compute_capability = 80,
            .multiprocessors = 108,
            .shared_bytes_per_block = 166912,
            .l2_bytes = 41943040,
            .memory = {int64_t{80} << 30},
            .max_clock_hz = 1.41e9};
  return {.name = "NVIDIA H200",
          .compute_capability = 90,
          .multiprocessors = 132,
          .shared_bytes_per_block = 232448,
          .l2_bytes = 62914560,
          .memory = {int64_t{140} << 30},
          .max_clock_hz = 1.98e9};
}

// With all of its bits. Versions of fmt write 0 differently.
inline std::string exact_text(double value) {
  return value == 0 ? "0x0p+0" : fmt::format("{:a}", value);
}
template <class Values>
std::string exact_texts(const Values& values) {
  std::string text;
  for (const double value : values) text += ' ' + exact_text(value);
  return text.empty() ? " " : text;
}

class RecordingDevice : public Device {
 public:
  // `epilogues_win`: products take the work behind them wherever the planner offers it.
  explicit RecordingDevice(Target target, bool epilogues_win = false)
      : target_(target),
        epilogues_win_(epilogues_win),
        facts_(facts_of(target)),
        ledger_(memory_, {.budget = {int64_t{1} << 38}}) {}

  const std::vector<RecordedLaunch>& launches() const { return launches_; }
  // Entries of the generated kernels, each with the hash of its text.
  const std::vector<std::string>& texts() const { return texts_; }

  // Notes a kernel that is no node of a graph.
  void add(const CudaLaunch& launch) {
    const CudaKernel& kernel = launch.kernel;
    std::string name = kernel.text.empty() ? kernel.entry : "generated";
    for (const auto& [constant, value] : kernel.constants)
      if (constant == "OP") name += " " + value;
    std::string bytes;
    for (std::byte each : launch.params) bytes += fmt::format("{:02x}", static_cast<int>(each));
    push({std::move(name),
          fmt::format("{} grid {} threads {} shared {}", kernel_key(kernel),
                      fmt::join(launch.grid, "x"), launch.threads, launch.shared_bytes),
          std::move(bytes)});
  }

  std::string name() const override { return on_gpu() ? "cuda" : "cpu"; }
  std::string description() const override { return "a device that only takes notes"; }
  DeviceFacts facts() const override {
    if (!on_gpu()) return {.kind = "cpu", .isa = "avx512", .threads = 2};
    return {.kind = "cuda",
            .isa = facts_.arch(),
            .model = facts_.name,
            .multiprocessors = facts_.multiprocessors,
            .l2_bytes = facts_.l2_bytes,
            .max_clock_hz = facts_.max_clock_hz};
  }
  Ledger& ledger() override { return ledger_; }
  const Ledger& ledger() const override { return ledger_; }
  bool has_own_memory() const override { return on_gpu(); }
  bool has_queue() const override { return on_gpu(); }

  void run(const Node& node, std::span<const TensorView> inputs,
           std::span<const TensorView> outputs, void* scratch = nullptr) override {
    if (on_gpu() && node.op != Op::matmul) return plan(node, inputs, outputs, scratch);
    RecordedLaunch launch{std::string(info(node.op).name), attributes_text(node), {}};
    for (const TensorView& input : inputs) note(input, launch);
    launch.kernel += " ->";
    for (const TensorView& output : outputs) note(output, launch);
    push(std::move(launch));
  }
  bool has_epilogues() const override { return on_gpu(); }
  bool prefers_update_products(std::span<const ProductSize> products) const override {
    return on_gpu() && ridgeline::prefers_update_products(products, facts_);
  }
  void multiply(const Product& product) override {
    RecordedLaunch launch{"matmul with epilogue",
                          fmt::format("scale {} activation {}", exact_text(product.scale),
                                      static_cast<int>(product.activation)),
                          {}};
    for (const TensorView& view : {product.a, product.b, product.out}) note(view, launch);
    for (const auto& operand : {product.addend, product.bias})
      if (operand) note(*operand, launch);
    push(std::move(launch));
  }
  std::optional<std::vector<double>> compare(const std::string&, size_t ways,
                                             const std::function<double(size_t)>&) override {
    if (!epilogues_win_) return std::nullopt;
    std::vector<double> times(ways, 2);
    times.back() = 1;
    return times;
  }
  Bytes scratch(const Node& node, std::span<const TensorType> inputs) const override {
    return on_gpu() ? cuda_scratch(node, inputs, facts_) : Bytes{};
  }
  std::vector<std::string> functions_of(const FusedKernel&) const override { return {}; }
  std::vector<FusedProgram> compile(std::span<const FusedKernel* const> kernels) override {
    std::vector<FusedProgram> programs;
    for (const FusedKernel* kernel : kernels) {
      if (on_gpu()) {
        CudaFusedKernel fused(*kernel);
        for (const CudaKernel& each : fused.kernels()) note_text(each.entry, each.text);
        programs.push_back([this, fused](auto inputs, auto outputs, void* scratch) {
          for (const CudaLaunch& launch : fused.launches(inputs, outputs, scratch)) add(launch);
        });
      } else {
        HostText text = emit_host(*kernel);
        note_text(text.entry, text.text);
        programs.push_back([this, text](auto inputs, auto outputs, void* scratch) {
          push({"generated",
                fmt::format("{}{} {}", text.entry, exact_texts(text.constants), text.kept_rows),
                fmt::format("{} {} {}", fmt::join(inputs, " "), fmt::join(outputs, " "), scratch)});
        });
      }
    }
    return programs;
  }
  bool can_record() const override { return on_gpu(); }
  void begin_side() override { push({"begin side", "", ""}); }
  size_t end_side() override {
    push({"end side", "", ""});
    return ++marks_;
  }
  void join_side(size_t mark) override { push({"join side", fmt::to_string(mark), ""}); }
  void synchronize() override {}
  std::vector<double> time_each_ms(std::span<const std::function<void()>> works) override {
    return std::vector<double>(works.size(), 1);
  }
  std::function<void()> cache_flush(Bytes) override {
    return [] {};
  }
  std::optional<Bytes> driver_memory_in_use() const override { return std::nullopt; }
  void poison(const TensorView&) override {}
  void clear(const TensorView&) override {}
  void upload(const TensorView&, const void*) override {}
  void download(const TensorView&, void*) const override {}

 private:
  bool on_gpu() const { return target_ != Target::cpu; }

  // As CudaDevice::run, up to the point where a GPU is needed.
  void plan(const Node& node, std::span<const TensorView> inputs,
            std::span<const TensorView> outputs, void* scratch) {
    const CudaOp& op = cuda_op(node.op);
    if (op.plan == nullptr) return;
    std::vector<TensorView> views(inputs.begin(), inputs.end());
    std::vector<Allocation> held;
    std::vector<TensorType> types;
    for (TensorView& view : views) {
      types.push_back({view.dtype, view.shape});
      if (op.takes_values || !view.host_scalar) continue;
      const TensorView value = view;
      held.push_back(ledger_.allocate(byte_size(types.back()), "spread constant"));
      view = {held.back().data(), value.dtype, value.shape, contiguous_strides(value.shape)};
      add(plan_copy(value, view));
    }
    const Bytes bytes = cuda_scratch(node, types, facts_);
    if (scratch == nullptr && bytes.count > 0) {
      held.push_back(ledger_.allocate(bytes, "scratch"));
      scratch = held.back().data();
    }
    static const CudaChooser first = [](const auto&, size_t, const auto&) { return size_t{0}; };
    for (const CudaLaunch& launch : op.plan({.node = node,
                                    .inputs = views,
                                    .outputs = outputs,
                                    .device = facts_,
                                    .scratch = scratch,
                                    .choose = first}))
      add(launch);
  }

  static void note(const TensorView& view, RecordedLaunch& launch) {
    launch.kernel += fmt::format(" {}({})", to_string(TensorType{view.dtype, view.shape}),
                                 fmt::join(view.strides.span(), ","));
    uint64_t bits = 0;
    if (view.host_scalar) std::memcpy(&bits, view.data, static_cast<size_t>(info(view.dtype).size));
    launch.arguments += view.host_scalar ? fmt::format(" value {:x}", bits)
                                         : fmt::format(" {}", fmt::ptr(view.data));
  }

  void note_text(const std::string& entry, const std::string& text) {
    texts_.push_back(fmt::format("{} {}", entry, short_hash(text)));
  }

  void push(RecordedLaunch launch) { launches_.push_back(std::move(launch)); }

  Target target_;
  bool epilogues_win_;
  CudaFacts facts_;
  ImaginaryMemory memory_;
  Ledger ledger_;
  size_t marks_ = 0;
  std::vector<RecordedLaunch> launches_;
  std::vector<std::string> texts_;
};

}  // namespace ridgeline::testing
