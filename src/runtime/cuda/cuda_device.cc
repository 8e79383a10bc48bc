#include "runtime/cuda/cuda_device.h"

#include <fmt/format.h>
#include <algorithm>

#include <array>

#include "base/error.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/lab/gemm_plan.h"
#include "kernels/cuda/pointwise/pointwise.h"
#include "runtime/cuda/cublaslt_api.h"
#include "runtime/cuda/nvml.h"

namespace ridgeline {
namespace {

CudaFacts read_facts(cuda::DeviceHandle device) {
  const cuda::Driver& driver = cuda::driver();
  const auto attribute = [&](cuda::DeviceAttribute which) {
    int value = 0;
    cuda::check(driver.cuDeviceGetAttribute(&value, which, device), "asking for the GPU's facts");
    return value;
  };
  std::array<char, 256> name{};
  cuda::check(driver.cuDeviceGetName(name.data(), static_cast<int>(name.size()), device),
              "asking for the GPU's name");
  size_t memory = 0;
  cuda::check(driver.cuDeviceTotalMem_v2(&memory, device), "asking for the GPU's memory");
  return {.name = name.data(),
          .compute_capability = 10 * attribute(cuda::kComputeCapabilityMajor) +
                                attribute(cuda::kComputeCapabilityMinor),
          .multiprocessors = attribute(cuda::kMultiprocessorCount),
          .shared_bytes_per_block = attribute(cuda::kSharedBytesPerBlockOptin),
          .l2_bytes = attribute(cuda::kL2CacheBytes),
          .memory = {static_cast<int64_t>(memory)},
          .max_clock_hz = 1e3 * attribute(cuda::kClockRateKhz)};
}

std::string read_bus_id(cuda::DeviceHandle device) {
  std::array<char, 32> id{};
  cuda::check(cuda::driver().cuDeviceGetPCIBusId(id.data(), static_cast<int>(id.size()), device),
              "asking where the GPU is");
  return id.data();
}

std::string read_driver_version() {
  int version = 0;
  cuda::check(cuda::driver().cuDriverGetVersion(&version), "asking for the driver's version");
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);  // 13000: 13.0
}

LedgerOptions ledger_options(const CudaOptions& options) {
  LedgerOptions ledger = options.ledger;
  ledger.budget = options.budget ? *options.budget : default_cuda_budget();
  return ledger;
}

JitOptions jit_options(const CudaOptions& options, const CudaFacts& facts) {
  JitOptions jit = options.jit;
  jit.arch = facts.arch();
  return jit;
}

std::filesystem::path tuning_directory(const JitOptions& jit) {
  const std::filesystem::path directory =
      jit.cache_dir.empty() ? default_jit_cache() : jit.cache_dir;
  return directory == "off" ? std::filesystem::path() : directory;
}

cuda::DevicePointer address_of(const TensorView& view) {
  return reinterpret_cast<cuda::DevicePointer>(view.data);
}

size_t contiguous_bytes(const TensorView& view) {
  return static_cast<size_t>(byte_size({view.dtype, view.shape}).count);
}

}  // namespace

void CudaGraph::launch() const {
  queue_->make_current();
  queue_->before_start();
  queue_->check(queue_->driver().cuGraphLaunch(executable_.get(), queue_->stream()),
                "starting a launch graph");
}

void CudaGraph::Destroy::operator()(cuda::LaunchGraphExec executable) const {
  cuda::driver().cuGraphExecDestroy(executable);
}

CudaDevice::CudaDevice(CudaOptions options)
    : context_(options.ordinal),
      queue_(context_, options.stream),
      ordinal_(options.ordinal),
      deterministic_(options.deterministic),
      facts_(read_facts(context_.device())),
      usable_(facts_),
      bus_id_(read_bus_id(context_.device())),
      driver_version_(read_driver_version()),
      memory_(queue_),
      ledger_(memory_, ledger_options(options)),
      kernels_(queue_, jit_options(options, facts_)),
      tuner_(queue_, kernels_,
             {.tuning = options.tuning,
              .device = facts_.name + " driver " + driver_version_,
              .cache_dir = tuning_directory(options.jit)}),
      choose_([this, variant = options.variant](
                  const std::string& key, size_t count,
                  const std::function<std::vector<CudaLaunch>(size_t)>& candidate) {
        return variant ? std::min(*variant, count - 1) : tuner_.choose(key, count, candidate);
      }),
      matmul_(queue_, kernels_, ledger_, usable_,
              options.deterministic ? AlgorithmChoice::first : AlgorithmChoice::fastest),
      busy_clock_(queue_, [this](double ms) { kernels_.run(plan_hold(ms)); }),
      events_(queue_) {}

// Waits for kernels that may still use memory of the members.
CudaDevice::~CudaDevice() {
  cuda::driver().cuStreamSynchronize(queue_.stream());
}

std::string CudaDevice::description() const {
  const auto version_of = [](const char* library, const std::string& version) {
    return version.empty() ? fmt::format("no {}", library) : fmt::format("{} {}", library, version);
  };
  return fmt::format("{}, {}, {} SMs, driver {}, {}, {}", facts_.name, facts_.arch(),
                     facts_.multiprocessors, driver_version_, version_of("NVRTC", nvrtc_version()),
                     version_of("cuBLASLt", cublaslt::version()));
}

DeviceFacts CudaDevice::facts() const {
  return {.kind = "cuda",
          .isa = facts_.arch(),
          .model = facts_.name,
          .multiprocessors = facts_.multiprocessors,
          .l2_bytes = facts_.l2_bytes,
          .max_clock_hz = facts_.max_clock_hz,
          .ordinal = ordinal_,
          .bus_id = bus_id_,
          .deterministic = deterministic_};
}

void CudaDevice::run(const Node& node, std::span<const TensorView> inputs,
                     std::span<const TensorView> outputs, void* scratch) {
  queue_.make_current();
  queue_.note(node);
  if (node.op == Op::matmul)
    return matmul_.run({.a = inputs[0], .b = inputs[1], .out = outputs[0]});
  const CudaOp& op = cuda_op(node.op);
  if (op.plan == nullptr) return;

  std::vector<TensorView> copies;
  std::vector<Allocation> copied;
  const auto is_value = [](const TensorView& input) { return input.host_scalar; };
  if (!op.takes_values && std::any_of(inputs.begin(), inputs.end(), is_value)) {
    copies.assign(inputs.begin(), inputs.end());
    for (TensorView& copy : copies) {
      if (!copy.host_scalar) continue;
      const TensorView value = copy;
      copied.push_back(ledger_.allocate(byte_size({copy.dtype, copy.shape}), "spread constant"));
      copy = {copied.back().data(), copy.dtype, copy.shape, contiguous_strides(copy.shape)};
      kernels_.run(plan_copy(value, copy));
    }
    inputs = copies;
  }

  Allocation scratch_memory;
  if (scratch == nullptr && op.scratch != nullptr) {
    std::vector<TensorType> types;
    for (const TensorView& input : inputs) types.push_back({input.dtype, input.shape});
    const Bytes bytes = op.scratch(node, types, usable_);
    if (bytes.count > 0)
      scratch_memory = ledger_.allocate(bytes, fmt::format("{} scratch", info(node.op).name));
    scratch = scratch_memory.data();
  }
  const CudaCall call{.node = node,
                      .inputs = inputs,
                      .outputs = outputs,
                      .device = usable_,
                      .scratch = scratch,
                      .choose = choose_};
  kernels_.run(op.plan(call));
}

PreparedNode CudaDevice::prepare(const Node& node, std::span<const TensorView> inputs,
                                 std::span<const TensorView> outputs, void* scratch) {
  queue_.make_current();
  queue_.note(node);
  const CudaOp& op = cuda_op(node.op);
  if (op.plan == nullptr)
    throw Error(ErrorKind::internal, fmt::format("{} has no planner", info(node.op).name));
  PreparedNode prepared;
  prepared.plan = plan_movable(
      inputs, outputs, scratch,
      [&](std::span<const TensorView> from, std::span<const TensorView> to, void* memory) {
        return op.plan({.node = node,
                        .inputs = from,
                        .outputs = to,
                        .device = usable_,
                        .scratch = memory,
                        .choose = choose_});
      });
  return prepared;
}

std::vector<CudaKernel> CudaDevice::missing(std::span<const PreparedNode> prepared) const {
  std::vector<CudaKernel> kernels;
  for (const PreparedNode& node : prepared)
    for (const CudaLaunch& launch : node.plan.launches) kernels.push_back(launch.kernel);
  return kernels_.missing(kernels);
}

void CudaDevice::load(std::span<PreparedNode> prepared) {
  kernels_.load(missing(prepared));
  for (PreparedNode& node : prepared)
    for (const CudaLaunch& launch : node.plan.launches)
      node.functions.push_back(kernels_.function(launch));
}

void CudaDevice::start(PreparedNode& prepared, std::span<void* const> addresses) {
  prepared.plan.move_to(addresses);
  for (size_t i = 0; i < prepared.functions.size(); ++i)
    queue_.launch(prepared.functions[i], prepared.plan.launches[i]);
}

void CudaDevice::multiply(const Product& product) {
  queue_.make_current();
  matmul_.run(product);
}

// Deterministic devices do not compare: the fastest form may vary between runs, and forms round
// differently.
std::optional<std::vector<double>> CudaDevice::compare(
    const std::string& key, size_t ways, const std::function<double(size_t)>& time_ms) {
  if (deterministic_) return std::nullopt;
  return tuner_.compare("cuBLASLt " + cublaslt::version() + " " + key, ways, time_ms);
}

ProductPath CudaDevice::product_path(Op op, DType dtype) const {
  return cuda_product_path(op, dtype);
}

Bytes CudaDevice::scratch(const Node& node, std::span<const TensorType> inputs) const {
  return cuda_scratch(node, inputs, usable_);
}

void CudaDevice::synchronize() {
  queue_.synchronize();
}

std::vector<double> CudaDevice::time_each_ms(std::span<const std::function<void()>> works) {
  queue_.make_current();
  return queue_.time_each_ms(works);
}

std::optional<double> CudaDevice::busy_ms(const std::function<void()>& work) {
  queue_.make_current();
  return busy_clock_.time_ms(work);
}

void CudaDevice::mark() {
  queue_.make_current();
  queue_.mark();
}

std::vector<double> CudaDevice::take_marks_ms() {
  queue_.make_current();
  return queue_.take_marks_ms();
}

std::optional<Bytes> CudaDevice::driver_memory_in_use() const {
  queue_.make_current();
  const CudaMemoryFacts memory = cuda_memory_facts();
  return memory.total - memory.free;
}

EventRef CudaDevice::queued_work() {
  queue_.make_current();
  return events_.record(queue_.main_stream());
}

void CudaDevice::wait_for(Event& event) {
  if (event.device_event() == nullptr) return event.wait();
  queue_.make_current();
  queue_.wait_for(static_cast<cuda::Event>(event.device_event()));
}

DeviceQueue* CudaDevice::communication_queue() {
  if (!communication_) communication_ = std::make_unique<CudaCommunicationQueue>(queue_, events_);
  return communication_.get();
}

void CudaDevice::fill(const TensorView& view, unsigned char byte, const char* what) {
  queue_.make_current();
  queue_.before_start();
  queue_.check(queue_.driver().cuMemsetD8Async(address_of(view), byte, contiguous_bytes(view),
                                               queue_.stream()),
               what);
}

void CudaDevice::poison(const TensorView& view) {
  fill(view, 0xff, "poisoning a result");
}

void CudaDevice::clear(const TensorView& view) {
  fill(view, 0, "filling memory with zeros");
}

// The driver's synchronous copies are not ordered with our stream, so it waits for both.
void CudaDevice::upload(const TensorView& to, const void* from) {
  queue_.make_current();
  queue_.synchronize();
  queue_.check(queue_.driver().cuMemcpyHtoD_v2(address_of(to), from, contiguous_bytes(to)),
               "copying to the GPU");
  queue_.check(queue_.driver().cuCtxSynchronize(), "copying to the GPU");
}

void CudaDevice::download(const TensorView& from, void* to) const {
  queue_.make_current();
  queue_.synchronize();
  queue_.check(queue_.driver().cuMemcpyDtoH_v2(to, address_of(from), contiguous_bytes(from)),
               "copying from the GPU");
}

void CudaDevice::copy(const TensorView& from, const TensorView& to) {
  const size_t bytes = contiguous_bytes(from);
  if (bytes != contiguous_bytes(to))
    throw Error(ErrorKind::internal,
                fmt::format("a copy of {} bytes into {}", bytes, contiguous_bytes(to)));
  queue_.make_current();
  queue_.before_start();
  queue_.check(queue_.driver().cuMemcpyDtoDAsync_v2(address_of(to), address_of(from), bytes,
                                                    queue_.stream()),
               "copying on the GPU");
}

void CudaDevice::launch(const CudaLaunch& launch) {
  queue_.make_current();
  kernels_.run(launch);
}

CudaGraph CudaDevice::capture(const std::function<void()>& work) {
  queue_.make_current();
  queue_.begin_capture();
  try {
    work();
  } catch (...) {
    queue_.end_capture(false);
    memory_.free_deferred();
    throw;
  }
  CudaGraph graph(queue_, queue_.end_capture(true));
  memory_.free_deferred();
  return graph;
}

std::function<void()> CudaDevice::cache_flush(Bytes) {
  return [this] { flush_l2(); };
}

std::optional<GpuState> CudaDevice::state() const {
  return gpu_state(ordinal_);
}

void CudaDevice::flush_l2() {
  queue_.make_current();
  if (flush_buffer_.address() == 0)
    flush_buffer_ = CudaBuffer(queue_, {2 * facts_.l2_bytes}, "taking a buffer to flush the L2");
  queue_.before_start();
  queue_.check(queue_.driver().cuMemsetD8Async(flush_buffer_.address(), 0,
                                               static_cast<size_t>(flush_buffer_.bytes().count),
                                               queue_.stream()),
               "flushing the L2");
}

}  // namespace ridgeline
