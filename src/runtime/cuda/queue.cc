#include "runtime/cuda/queue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/error.h"
#include "kernels/cuda/params.h"

namespace ridgeline {
namespace {

// Results that break the context: the driver refuses all later calls.
constexpr cuda::Result kContextLost[] = {214, 220, 700, 702, 710, 714,
                                         715, 716, 717, 718, 719, 721};

bool loses_context(cuda::Result result) {
  return std::find(std::begin(kContextLost), std::end(kContextLost), result) !=
         std::end(kContextLost);
}

}  // namespace

PrimaryContext::PrimaryContext(int ordinal) {
  const cuda::Driver& driver = cuda::driver();
  int count = 0;
  cuda::check(driver.cuDeviceGetCount(&count), "counting the GPUs");
  if (ordinal < 0 || ordinal >= count)
    throw Error(
        ErrorKind::usage,
        fmt::format("there is no GPU {}: this machine shows {}, numbered from 0", ordinal, count),
        "choose one that `ridgeline doctor` lists");
  cuda::check(driver.cuDeviceGet(&device_, ordinal), "opening the GPU");
  cuda::check(driver.cuDevicePrimaryCtxRetain(&context_, device_), "taking the GPU's context");
  make_current();
}

PrimaryContext::~PrimaryContext() {
  cuda::driver().cuDevicePrimaryCtxRelease_v2(device_);
}

void PrimaryContext::make_current() const {
  cuda::check(cuda::driver().cuCtxSetCurrent(context_), "making the GPU's context current");
}

bool PrimaryContext::try_make_current() const noexcept {
  return cuda::driver().cuCtxSetCurrent(context_) == cuda::kSuccess;
}

CurrentContext::CurrentContext() {
  cuda::check(cuda::driver().cuCtxGetCurrent(&before_), "asking for the current context");
  changed_ = true;
}

CurrentContext::CurrentContext(const PrimaryContext& context) : CurrentContext() {
  changed_ = before_ != context.handle();
  if (changed_) context.make_current();
}

CurrentContext::~CurrentContext() {
  if (changed_) cuda::driver().cuCtxSetCurrent(before_);
}

CudaQueue::CudaQueue(const PrimaryContext& context, std::optional<cuda::Stream> given)
    : context_(context), driver_(cuda::driver()), owns_stream_(!given) {
  // The main stream has the highest priority; the side stream fills the gaps.
  int greatest_priority = 0;
  check(driver_.cuCtxGetStreamPriorityRange(&least_priority_, &greatest_priority),
        "asking for the priorities of streams");
  constexpr int kGraphsOfEarlyStarts = 12030;  // the first driver that captures early starts
  int major = 0, version = 0;
  check(driver_.cuDeviceGetAttribute(&major, cuda::kComputeCapabilityMajor, context.device()),
        "asking for the compute capability");
  check(driver_.cuDriverGetVersion(&version), "asking for the driver's version");
  if (given) {
    stream_ = *given;  // also runs kernels of the caller, so nothing starts early
    return;
  }
  starts_early_ = major >= 9 && version >= kGraphsOfEarlyStarts;
  check(driver_.cuStreamCreateWithPriority(&stream_, cuda::kStreamNonBlocking, greatest_priority),
        "creating a stream");
}

CudaQueue::~CudaQueue() {
  for (const auto* events : {&events_, &capture_events_, &marks_})
    for (cuda::Event event : *events) driver_.cuEventDestroy_v2(event);
  if (side_stream_ != nullptr) driver_.cuStreamDestroy_v2(side_stream_);
  if (owns_stream_) driver_.cuStreamDestroy_v2(stream_);
}

void CudaQueue::note(const Node& node) {
  if (lost()) fail(cuda::kSuccess, "running a node");
  last_op_ = node.op;
  last_name_ = node.name;
}

std::string CudaQueue::last_node() const {
  return last_name_.empty() ? fmt::format("a node '{}'", info(last_op_).name)
                            : fmt::format("'{}' ({})", last_name_, info(last_op_).name);
}

void CudaQueue::encode_maps(const CudaLaunch& launch, std::span<std::byte> params) {
  for (const BoxedTensor& tensor : launch.boxed) {
    void* address = nullptr;
    std::memcpy(&address, params.data() + tensor.address_offset, sizeof address);
    const std::array<unsigned, 4> box = {kBoxColumns, tensor.box_rows, 1, 1}, every = {1, 1, 1, 1};
    TensorMap map;
    check(driver_.cuTensorMapEncodeTiled(
              &map, tensor.dtype == DType::bf16 ? cuda::kTensorMapBf16 : cuda::kTensorMapFp16, 4,
              address, tensor.sizes.data(), tensor.strides_bytes.data(), box.data(), every.data(),
              0, cuda::kSwizzle128Bytes, cuda::kPromoteTo128Bytes, 0),
          "describing a tensor to the copy engine");
    std::memcpy(params.data() + tensor.map_offset, &map, sizeof map);
  }
}

void CudaQueue::launch(cuda::Function function, const CudaLaunch& launch) {
  before_start();
  // The driver copies the parameters before it returns.
  void* parameters[] = {const_cast<std::byte*>(launch.params.data())};
  if (!launch.boxed.empty()) {
    encoded_params_.assign(launch.params.begin(), launch.params.end());
    encode_maps(launch, encoded_params_);
    parameters[0] = encoded_params_.data();
  }
  cuda::LaunchAttribute early = {.id = cuda::kProgrammaticStreamSerialization, .value = 1};
  const cuda::LaunchConfig config = {
      .grid_x = launch.grid[0],
      .grid_y = launch.grid[1],
      .grid_z = launch.grid[2],
      .block_x = launch.threads,
      .block_y = 1,
      .block_z = 1,
      .shared_bytes = launch.shared_bytes,
      .stream = stream(),
      .attributes = &early,
      .attribute_count = starts_early_ && launch.starts_early && !redirected_ ? 1u : 0u};
  const cuda::Result result = driver_.cuLaunchKernelEx(&config, function, parameters, nullptr);
  if (result != cuda::kSuccess) [[unlikely]]
    fail(result, fmt::format("starting {} with a grid of {} x {} x {} blocks of {} threads and {} "
                             "bytes of shared memory",
                             launch.kernel.entry, launch.grid[0], launch.grid[1], launch.grid[2],
                             launch.threads, launch.shared_bytes)
                     .c_str());
}

void CudaQueue::synchronize() {
  require_no_capture("waiting for the GPU");
  before_wait();
  check(driver_.cuStreamSynchronize(stream()), "waiting for the GPU");
}

std::vector<double> CudaQueue::time_each_ms(std::span<const std::function<void()>> works) {
  require_no_capture("timing");
  const size_t first = events_used_;
  while (events_.size() < first + works.size() + 1) events_.push_back(create_event());
  struct Level {
    size_t& used;
    const size_t before;
    Level(size_t& count, size_t more) : used(count), before(count) { used += more; }
    ~Level() { used = before; }
  } level(events_used_, works.size() + 1);
  check(driver_.cuEventRecord(events_[first], main_stream()), "recording an event");
  for (size_t i = 0; i < works.size(); ++i) {
    works[i]();
    check(driver_.cuEventRecord(events_[first + i + 1], main_stream()), "recording an event");
  }
  check(driver_.cuEventSynchronize(events_[first + works.size()]), "waiting for the GPU");
  std::vector<double> times;
  for (size_t i = 0; i < works.size(); ++i)
    times.push_back(elapsed_ms(events_[first + i], events_[first + i + 1]));
  return times;
}

cuda::Event CudaQueue::create_event(unsigned flags) {
  cuda::Event event = nullptr;
  check(driver_.cuEventCreate(&event, flags), "creating an event");
  return event;
}

double CudaQueue::elapsed_ms(cuda::Event from, cuda::Event to) {
  float milliseconds = 0;
  check(driver_.cuEventElapsedTime(&milliseconds, from, to), "reading the time of two events");
  return milliseconds;
}

void CudaQueue::mark() {
  require_no_capture("marking a moment");
  if (marks_used_ == marks_.size()) marks_.push_back(create_event());
  check(driver_.cuEventRecord(marks_[marks_used_++], main_stream()), "recording an event");
}

std::vector<double> CudaQueue::take_marks_ms() {
  synchronize();
  std::vector<double> times;
  for (size_t i = 0; i < marks_used_; ++i) times.push_back(elapsed_ms(marks_[0], marks_[i]));
  marks_used_ = 0;
  return times;
}

cuda::Event CudaQueue::next_event() {
  constexpr unsigned kNoTiming = 2;
  if (capture_events_used_ == capture_events_.size())
    capture_events_.push_back(create_event(kNoTiming));
  return capture_events_[capture_events_used_++];
}

void CudaQueue::begin_side() {
  if (!capturing_) return;
  if (side_stream_ == nullptr)
    check(driver_.cuStreamCreateWithPriority(&side_stream_, cuda::kStreamNonBlocking,
                                             least_priority_),
          "creating a stream");
  const cuda::Event here = next_event();
  check(driver_.cuEventRecord(here, main_stream()), "recording an event");
  check(driver_.cuStreamWaitEvent(side_stream_, here, 0), "ordering two streams");
  on_side_ = true;
}

size_t CudaQueue::end_side() {
  if (!on_side_) return 0;
  side_marks_.push_back(next_event());
  check(driver_.cuEventRecord(side_marks_.back(), side_stream_), "recording an event");
  on_side_ = false;
  return side_marks_.size() - 1;
}

void CudaQueue::join_side(size_t mark) {
  if (!capturing_ || mark >= side_marks_.size()) return;
  check(driver_.cuStreamWaitEvent(main_stream(), side_marks_[mark], 0), "ordering two streams");
}

void CudaQueue::wait_for(cuda::Event event) {
  check(driver_.cuStreamWaitEvent(main_stream(), event, 0), "ordering two streams");
  if (on_side_) check(driver_.cuStreamWaitEvent(side_stream_, event, 0), "ordering two streams");
}

void CudaQueue::begin_capture() {
  require_no_capture("beginning another capture");
  check(driver_.cuStreamBeginCapture_v2(main_stream(), cuda::kCaptureThreadLocal),
        "beginning a capture");
  capturing_ = true;
  capture_events_used_ = 0;
  side_marks_.clear();
}

cuda::LaunchGraphExec CudaQueue::end_capture(bool keep) {
  capturing_ = false;
  on_side_ = false;
  cuda::LaunchGraph graph = nullptr;
  const cuda::Result ended = driver_.cuStreamEndCapture(main_stream(), &graph);
  cuda::LaunchGraphExec executable = nullptr;
  if (keep && ended == cuda::kSuccess) try {
      check(driver_.cuGraphInstantiateWithFlags(&executable, graph, 0),
            "making a launch graph executable");
    } catch (...) {
      driver_.cuGraphDestroy(graph);
      throw;
    }
  if (graph != nullptr) driver_.cuGraphDestroy(graph);
  if (keep) check(ended, "capturing work into a launch graph");
  return executable;
}

bool CudaQueue::caller_captures() const {
  if (owns_stream_ && !redirected_) return false;
  cuda::StreamCaptureStatus status = cuda::kNoCapture;
  // The query fails for the default stream while another stream is captured.
  return driver_.cuStreamIsCapturing(stream(), &status) != cuda::kSuccess ||
         status != cuda::kNoCapture;
}

void CudaQueue::require_no_capture(const char* what) const {
  if (capturing_ || caller_captures())
    throw Error(ErrorKind::usage,
                fmt::format("{} is not possible while work is captured into a launch graph", what),
                "run the same work once before capturing it, so that memory, kernels and "
                "algorithms are there");
}

void CudaQueue::fail(cuda::Result result, const char* what) {
  if (lost())
    throw Error(ErrorKind::environment, "the GPU can do nothing more: " + lost_since_,
                "start the program again");
  try {
    cuda::check(result, what);
  } catch (const Error& error) {
    const Error placed = error.at("after " + last_node() + " was started");
    if (loses_context(result)) lost_since_ = placed.message();
    throw placed;
  }
  throw Error(ErrorKind::internal, fmt::format("{} failed without an error", what));
}

}  // namespace ridgeline
