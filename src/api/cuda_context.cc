// GPUs behind the C interface: nodes that are planned and loaded once, started on the stream of the
// context or of a call. Calls take turns, but for the compilation of their kernels.
#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <memory>
#include <optional>

#include "api/border.h"
#include "api/context.h"
#include "api/fork_count.h"
#include "api/operand_sums.h"
#include "base/error.h"
#include "jit/disk_cache.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline {
namespace {

CudaOptions options_of(const rl_context_params& params) {
  CudaOptions options = {.ordinal = params.device.id};
  if (params.uses_stream != 0) options.stream = static_cast<cuda::Stream>(params.stream);
  if (params.cache_dir != nullptr) options.jit.cache_dir = params.cache_dir;
  return options;
}

// CU_STREAM_PER_THREAD: one handle for as many streams as there are threads.
bool is_per_thread(cuda::Stream stream) {
  return reinterpret_cast<uintptr_t>(stream) == 2;
}

// Tells this thread from all others, and expires with it. Its std::thread::id may be that of a
// later thread, while the stream of this one still works.
const std::shared_ptr<const char>& this_thread() {
  thread_local const auto thread = std::make_shared<const char>();
  return thread;
}

// A folder that was asked for and cannot be used is an error; the user's own cache is a help.
void check_cache(const char* folder) {
  if (folder == nullptr || std::string(folder) == "off") return;
  if (!DiskCache(folder).usable())
    throw Error(ErrorKind::usage,
                fmt::format("params.cache_dir '{}' cannot be used as a private folder", folder),
                "name one that only this user may write to, or \"off\"");
}

// What a node of a call reads or writes.
struct Place {
  enum class Kind : uint8_t { input, output, scratch } kind;
  size_t number = 0;  // of an input or output of the call; bytes into its scratch memory
};

// A node that runs as part of a call.
struct DeviceStep {
  Node node;
  std::vector<TensorView> inputs, outputs;
  std::vector<Place> places;  // of inputs, outputs and scratch memory, in this order
};

TensorType type_of(const TensorView& view) {
  return {view.dtype, view.shape};
}

// Attention or its gradient, then what adds up the sums of operands' gradients.
class DeviceSteps {
 public:
  DeviceSteps(const AttentionCall& call, const CudaDevice& device) : device_(device) {
    const OperandSumsPlan sums = operand_sums_of(call);
    DeviceStep first{call.node, call.inputs, call.outputs, {}};
    for (size_t i = 0; i < call.inputs.size(); ++i) first.places.push_back({Place::Kind::input, i});
    for (size_t i = 0; i < call.outputs.size(); ++i)
      first.places.push_back({Place::Kind::output, i});
    for (const OperandSums& each : sums.list) {
      first.outputs[each.output] = each.sums;
      if (!each.direct)
        first.places[call.inputs.size() + each.output] = take(byte_size(type_of(each.sums)));
    }
    add(first);
    for (const OperandSums& each : sums.list)
      if (!each.direct) add_up(each, list_[0].places[call.inputs.size() + each.output]);
  }

  const std::vector<DeviceStep>& list() const { return list_; }
  Bytes scratch() const { return bytes_; }

 private:
  Place take(Bytes bytes) {
    const Place place{Place::Kind::scratch, static_cast<size_t>(bytes_.count)};
    bytes_ = bytes_ + aligned(bytes);
    return place;
  }

  void add(DeviceStep step) {
    std::vector<TensorType> types;
    for (const TensorView& input : step.inputs) types.push_back(type_of(input));
    step.places.push_back(take(device_.scratch(step.node, types)));
    list_.push_back(std::move(step));
  }

  void add_node(Op op, Attributes attributes, const TensorView& from, Place from_place,
                const TensorView& to, Place to_place) {
    add({Node{.op = op,
              .inputs = {},
              .attributes = std::move(attributes),
              .outputs = {type_of(to)},
              .name = {}},
         {from},
         {to},
         {from_place, to_place}});
  }

  void add_up(const OperandSums& each, Place from) {
    TensorView sums = each.sums;
    const Place result{Place::Kind::output, each.output};
    if (!(sums.shape == each.result.shape)) {
      TensorView added = each.result;
      added.dtype = DType::f32;
      const Place to = each.result.dtype == DType::f32 ? result : take(byte_size(type_of(added)));
      Dims axes;
      for (int axis = 2; axis < 4; ++axis)
        if (sums.shape[axis] != added.shape[axis]) axes.push_back(axis);
      add_node(Op::sum, {Axes{axes}, {}}, sums, from, added, to);
      sums = added;
      from = to;
    }
    if (each.result.dtype != DType::f32)
      add_node(Op::cast, {{}, Target{type_of(each.result)}}, sums, from, each.result, result);
  }

  const CudaDevice& device_;
  std::vector<DeviceStep> list_;
  Bytes bytes_;
};

class CudaCallReady : public PreparedCall {
 public:
  // Planned, and not loaded yet.
  CudaCallReady(const AttentionCall& call, CudaDevice& device) : device_(device) {
    const DeviceSteps all(call, device);
    for (const DeviceStep& step : all.list()) {
      auto* const scratch = reinterpret_cast<void*>(kWorkspaceAlignment);
      nodes_.push_back(device.prepare(step.node, step.inputs, step.outputs, scratch));
      places_.push_back(step.places);
      addresses_.resize(std::max(addresses_.size(), step.places.size()));
    }
  }

  std::span<const PreparedNode> nodes() const { return nodes_; }
  void load() { device_.load(nodes_); }

  void run(std::span<void* const> inputs, std::span<void* const> outputs, void* scratch) override {
    for (size_t step = 0; step < nodes_.size(); ++step) {
      const std::vector<Place>& places = places_[step];
      for (size_t i = 0; i < places.size(); ++i) {
        const Place& place = places[i];
        addresses_[i] = place.kind == Place::Kind::input ? inputs[place.number]
                        : place.kind == Place::Kind::output
                            ? outputs[place.number]
                            : static_cast<char*>(scratch) + place.number;
      }
      device_.start(nodes_[step], {addresses_.data(), places.size()});
    }
  }

 private:
  CudaDevice& device_;
  std::vector<PreparedNode> nodes_;
  std::vector<std::vector<Place>> places_;  // of each node
  std::vector<void*> addresses_;
};

// Kernels that calls compile at the moment, outside of their turns.
class CompiledNow {
 public:
  // Loads the kernels of a call. Another call that compiles one of them is waited for; if that
  // fails, this one tries, too.
  void load(CudaDevice& device, std::span<const PreparedNode> nodes, ContextTurn& turn) {
    for (;;) {
      const Work* others = nullptr;
      std::vector<CudaKernel> own;
      for (const CudaKernel& kernel : device.missing(nodes)) {
        const Work* found = work_on(kernel);
        if (found != nullptr)
          others = found;
        else
          own.push_back(kernel);
      }
      if (!own.empty()) {
        const Work work(works_, own);
        std::vector<MachineCode> codes;
        turn.outside([&] { codes = device.jit().machine_codes(own); });
        device.load(own, codes);
      } else if (others != nullptr) {
        turn.outside([ended = others->ended] { ended.wait(); });
      } else {
        return;
      }
    }
  }

 private:
  // Made and ended within a turn.
  struct Work {
    Work(std::vector<const Work*>& works, const std::vector<CudaKernel>& list)
        : all(works), kernels(list) {
      all.push_back(this);
    }
    ~Work() {
      std::erase(all, this);
      end.set_value();
    }
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;

    std::vector<const Work*>& all;
    const std::vector<CudaKernel>& kernels;
    std::promise<void> end = {};
    std::shared_future<void> ended = end.get_future();
  };

  const Work* work_on(const CudaKernel& kernel) const {
    for (const Work* work : works_)
      if (std::find(work->kernels.begin(), work->kernels.end(), kernel) != work->kernels.end())
        return work;
    return nullptr;
  }

  std::vector<const Work*> works_;
};

class Cuda : public AttentionDevice {
 public:
  explicit Cuda(const CudaOptions& options)
      : device_(std::make_unique<CudaDevice>(options)), queue_(device_->queue()) {}
  // Kernels and memory go while the GPU's context is current, and after their last use, which may
  // be on streams of the caller's.
  ~Cuda() override {
    if (made_after_ != fork_count()) {  // the driver does not work in a copy of the process
      static_cast<void>(device_.release());
      static_cast<void>(workspaces_.release());
      return;
    }
    try {
      const CurrentContext current(queue_.context());
      if (took_streams_ || is_per_thread(queue_.stream())) cuda::driver().cuCtxSynchronize();
      workspaces_.reset();
      device_.reset();
    } catch (const Error&) {  // the context is lost, and all of it with it
    }
  }

  void enter(void* const* stream) override {
    if (made_after_ != fork_count())
      throw Error(ErrorKind::environment,
                  "the context was made before fork(), and CUDA does not work in such a process",
                  "make it in the process that uses it, or start that by spawn");
    current_.emplace(queue_.context());
    if (stream == nullptr) return;
    queue_.redirect(static_cast<cuda::Stream>(*stream));
    took_streams_ = true;
  }
  void leave() noexcept override {
    queue_.redirect({});
    current_.reset();
  }
  Bytes scratch(const AttentionCall& call) const override {
    return DeviceSteps(call, *device_).scratch();
  }
  std::unique_ptr<PreparedCall> prepare(const AttentionCall& call, ContextTurn& turn) override {
    expect_no_capture("kernels of this call are not loaded");
    auto ready = std::make_unique<CudaCallReady>(call, *device_);
    compiled_now_.load(*device_, ready->nodes(), turn);
    ready->load();
    return ready;
  }
  void* workspace(Bytes bytes) override {
    Workspace& own = workspaces_->of_streams[this_stream()];
    if (bytes > own.memory.bytes()) {
      expect_no_capture("the context has no workspace for this call");
      if (!own.is_captured && own.memory.bytes().count > 0)
        queue_.synchronize();  // the last call that uses it
      workspaces_->drop(own);
      if (is_per_thread(queue_.stream())) {
        own.thread = this_thread();
        drop_those_of_ended_threads();
      }
      own.memory = CudaBuffer(queue_, bytes, "taking a workspace");
    }
    if (!own.is_captured) own.is_captured = queue_.caller_captures();
    return own.memory.data();
  }
  void synchronize() override { queue_.synchronize(); }

 private:
  // The order in which work is done: a stream, and if each thread has its own, the thread.
  using StreamOfThread = std::pair<cuda::Stream, const char*>;
  StreamOfThread this_stream() const {
    const cuda::Stream stream = queue_.stream();
    return {stream, is_per_thread(stream) ? this_thread().get() : nullptr};
  }
  void expect_no_capture(const char* what) const {
    if (queue_.caller_captures())
      throw NotReady(fmt::format("{}, and the stream is being captured", what));
  }

  std::unique_ptr<CudaDevice> device_;
  CudaQueue& queue_;
  CompiledNow compiled_now_;
  struct Workspace {
    CudaBuffer memory;
    bool is_captured = false;               // a graph of the caller uses it
    std::weak_ptr<const char> thread = {};  // whose stream it is, if each thread has its own
  };
  struct Workspaces {
    std::map<StreamOfThread, Workspace> of_streams;  // which order the users of each
    std::vector<CudaBuffer> captured;                // dropped, but still used by graphs

    // Nothing but graphs may use it any more.
    void drop(Workspace& workspace) {
      if (workspace.is_captured) captured.push_back(std::move(workspace.memory));
      workspace = {};
    }
  };
  void drop_those_of_ended_threads() {
    const auto is_of_ended_thread = [](const auto& each) {
      return each.first.second != nullptr && each.second.thread.expired();
    };
    std::map<StreamOfThread, Workspace>& all = workspaces_->of_streams;
    if (std::ranges::none_of(all, is_of_ended_thread)) return;
    queue_.check(cuda::driver().cuCtxSynchronize(), "waiting for the streams of ended threads");
    for (auto& each : all)
      if (is_of_ended_thread(each)) workspaces_->drop(each.second);
    std::erase_if(all, is_of_ended_thread);
  }
  std::unique_ptr<Workspaces> workspaces_ = std::make_unique<Workspaces>();
  std::optional<CurrentContext> current_;  // while a call is under way
  bool took_streams_ = false;
  int made_after_ = fork_count();
};

}  // namespace

std::unique_ptr<AttentionDevice> open_cuda(const rl_context_params& params) {
  set_cache_warnings(false);
  check_cache(params.cache_dir);
  return open_cuda(options_of(params));
}

std::unique_ptr<AttentionDevice> open_cuda(const CudaOptions& options) {
  const CurrentContext restored_at_the_end;
  return std::make_unique<Cuda>(options);
}

}  // namespace ridgeline
