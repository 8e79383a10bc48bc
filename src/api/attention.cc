// Attention and its gradients through the C interface: a checked call is prepared once, and run,
// with its parameters or, where the caller keeps it, with addresses alone.
#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <memory>

#include "api/border.h"
#include "api/context.h"
#include "api/request.h"
#include "base/error.h"

namespace ridgeline {
namespace {

rl_context& require(rl_context* context) {
  if (context == nullptr) throw invalid("context is null", "make one with rl_context_create");
  return *context;
}

// The stream that a call names; null: none.
template <class Params>
void* const* stream_of(const Params& params) {
  if (params.uses_stream != 0 && params.uses_stream != 1)
    throw invalid(fmt::format("uses_stream is {}", params.uses_stream), "use 0 or 1");
  return params.uses_stream != 0 ? &params.stream : nullptr;
}

using Entry = PreparedCalls::Entry;

// What the context keeps of a call, whether that is prepared or not.
std::shared_ptr<Entry> find(rl_context& context, const Request& request) {
  const CallKey key = request.key();
  std::shared_ptr<Entry> entry = context.calls.find(key);
  if (entry != nullptr) return entry;
  return context.calls.add(key, {context.runs->scratch(request.call()), nullptr});
}

// The same, prepared. Other threads may have turns before it returns.
std::shared_ptr<Entry> find_ready(ContextTurn& turn, const Request& request) {
  std::shared_ptr<Entry> entry = find(turn.context(), request);
  if (entry->call != nullptr) return entry;
  std::unique_ptr<PreparedCall> made = turn.context().runs->prepare(request.call(), turn);
  if (entry->call == nullptr) entry->call = std::move(made);
  return entry;
}

struct Workspace {
  void* data = nullptr;
  size_t bytes = 0;
};

// The caller's workspace, or the context's.
char* workspace_of(rl_context& context, const Workspace& given, const Request& request,
                   Bytes needed) {
  if (given.data != nullptr) {
    expect_workspace(given.data, given.bytes, static_cast<size_t>(needed.count),
                     {request.inputs.span(), request.outputs.span()});
    return static_cast<char*>(given.data);
  }
  if (given.bytes != 0)
    throw invalid(fmt::format("workspace is null, but workspace_bytes {}", given.bytes),
                  "pass the workspace, or 0 bytes");
  return needed.count > 0 ? static_cast<char*>(context.runs->workspace(needed)) : nullptr;
}

// Runs a call on the memory that its tensors name.
void start(rl_context& context, const Request& request, const Entry& entry,
           const Workspace& given) {
  const Bytes room = request.log_sum_exp_room();
  char* memory = workspace_of(context, given, request, room + entry.scratch);
  std::array<void*, 6 + kMaxScoreOperands> inputs, outputs;
  size_t input_count = 0, output_count = 0;
  for (const ClaimedTensor& tensor : request.inputs.span())
    inputs[input_count++] = tensor.view.data;
  for (const ClaimedTensor& tensor : request.outputs.span())
    outputs[output_count++] = tensor.view.data;
  if (!request.keeps_log_sum_exp) outputs[output_count++] = memory;
  entry.call->run({inputs.data(), input_count}, {outputs.data(), output_count},
                  entry.scratch.count > 0 ? memory + room.count : nullptr);
}

template <class Params>
rl_status run(rl_context* given_context, const Params* given) noexcept {
  return guarded([&] {
    rl_context& context = require(given_context);
    const Params params = read_params(given, "params");
    const Request request = read_request(params, {.device = context.device});
    ContextTurn turn(context, stream_of(params));
    const std::shared_ptr<Entry> entry = find_ready(turn, request);
    start(context, request, *entry, {params.workspace, params.workspace_bytes});
  });
}

template <class Params>
rl_status workspace(rl_context* given_context, const Params* given, size_t* bytes) noexcept {
  return guarded([&] {
    rl_context& context = require(given_context);
    const Params params = read_params(given, "params");
    if (bytes == nullptr) throw invalid("bytes is null", "pass where the size is to be stored");
    const Request request = read_request(params, {.device = context.device, .needs_data = false});
    const std::lock_guard lock(context.mutex);
    *bytes =
        static_cast<size_t>((request.log_sum_exp_room() + find(context, request)->scratch).count);
  });
}

template <class Params>
rl_status warm_up(rl_context* given_context, const Params* given) noexcept {
  return guarded([&] {
    rl_context& context = require(given_context);
    const Params params = read_params(given, "params");
    const Request request = read_request(params, {.device = context.device, .needs_data = false});
    ContextTurn turn(context, stream_of(params));
    const std::shared_ptr<Entry> entry = find_ready(turn, request);
    if (params.workspace == nullptr)
      workspace_of(context, {.bytes = params.workspace_bytes}, request,
                   request.log_sum_exp_room() + entry->scratch);
  });
}

uintptr_t remainder_of(const ClaimedTensor& tensor) {
  return reinterpret_cast<uintptr_t>(tensor.view.data) % kVectorBytes;
}

}  // namespace
}  // namespace ridgeline

static_assert(RL_MOST_TENSORS == 9 + 2 * ridgeline::kMaxScoreOperands);

// A checked call whose kernels are loaded: what is left to name is memory.
struct rl_attention_call {
  rl_context* context;
  ridgeline::Request request;
  bool uses_stream;
  std::shared_ptr<ridgeline::PreparedCalls::Entry> entry;  // for addresses of these remainders
  std::array<uint8_t, RL_MOST_TENSORS> remainders;
  std::array<ridgeline::ClaimedTensor*, RL_MOST_TENSORS> tensors;  // in the order of the addresses
  size_t tensor_count = 0;  // read by runs before their turns
};

namespace ridgeline {
namespace {

// The order of rl_attention_run::data: that of the parameters, which name out and log_sum_exp
// before operands.
void list_tensors(rl_attention_call& call) {
  const std::span<ClaimedTensor> in = call.request.inputs.span(), out = call.request.outputs.span();
  const size_t fixed = call.request.op == Op::attention ? 3 : 6;
  const size_t results = call.request.op == Op::attention ? out.size() : 3;
  for (std::span<ClaimedTensor> part :
       {in.first(fixed), out.first(results), in.subspan(fixed), out.subspan(results)})
    for (ClaimedTensor& tensor : part) call.tensors[call.tensor_count++] = &tensor;
}

// Keeps what the call is prepared for.
void keep(rl_attention_call& call, std::shared_ptr<Entry> entry) {
  call.entry = std::move(entry);
  for (size_t i = 0; i < call.tensor_count; ++i)
    call.remainders[i] = static_cast<uint8_t>(remainder_of(*call.tensors[i]));
}

template <class Params>
rl_status prepare(rl_context* given_context, const Params* given,
                  rl_attention_call** call) noexcept {
  return guarded([&] {
    if (call == nullptr) throw invalid("call is null", "pass where the call is to be stored");
    *call = nullptr;
    rl_context& context = require(given_context);
    const Params params = read_params(given, "params");
    auto made = std::make_unique<rl_attention_call>();
    made->context = &context;
    made->request = read_request(params, {.device = context.device, .needs_data = false});
    made->uses_stream = params.uses_stream != 0;
    ContextTurn turn(context, stream_of(params));
    list_tensors(*made);
    keep(*made, find_ready(turn, made->request));
    *call = made.release();
  });
}

// Puts a tensor of a prepared call to other memory. Gives whether it has the remainder that its
// kernels were prepared for.
bool move(ClaimedTensor& tensor, void* data, uint8_t remainder) {
  if (data == nullptr)
    throw invalid(fmt::format("{} has no memory", tensor.name), "pass its address");
  const auto first = reinterpret_cast<uintptr_t>(data),
             before = reinterpret_cast<uintptr_t>(tensor.view.data);
  const uintptr_t low = before - tensor.begin, high = tensor.end - before;  // of the first element
  if (first < low || first + high < first ||
      first % static_cast<uintptr_t>(info(tensor.view.dtype).size) != 0)
    throw invalid(fmt::format("{} is at address {:#x}", tensor.name, first),
                  "pass the aligned address of its first element");
  tensor.begin = first - low;
  tensor.end = first + high;
  tensor.view.data = data;
  return remainder_of(tensor) == remainder;
}

rl_status run_again(const rl_attention_run* run) noexcept {
  return guarded([&] {
    if (run == nullptr || run->call == nullptr)
      throw invalid("the call is null", "make one with rl_attention_forward_prepare");
    rl_attention_call& call = *run->call;
    const size_t expected = offsetof(rl_attention_run, data) + call.tensor_count * sizeof(void*);
    if (run->size != expected && run->size != sizeof *run)
      throw invalid(fmt::format("run.size is {}, expected {} for {} tensors", run->size, expected,
                                call.tensor_count),
                    "give as many addresses as the call was prepared with tensors");
    ContextTurn turn(*call.context, call.uses_stream ? &run->stream : nullptr);
    const auto move_all = [&] {
      bool same = true;
      for (size_t i = 0; i < call.tensor_count; ++i)
        same &= move(*call.tensors[i], run->data[i], call.remainders[i]);
      return same;
    };
    const bool same = move_all();
    expect_apart(call.request.outputs.span(), call.request.inputs.span());
    if (!same) {
      const std::shared_ptr<Entry> entry = find_ready(turn, call.request);
      move_all();  // another thread may have run the call meanwhile
      keep(call, entry);
    }
    start(*call.context, call.request, *call.entry, {run->workspace, run->workspace_bytes});
  });
}

}  // namespace
}  // namespace ridgeline

extern "C" {

rl_status rl_attention_forward(rl_context* context, const rl_attention_forward_params* params) {
  return ridgeline::run(context, params);
}

rl_status rl_attention_forward_workspace(rl_context* context,
                                         const rl_attention_forward_params* params, size_t* bytes) {
  return ridgeline::workspace(context, params, bytes);
}

rl_status rl_attention_forward_warm_up(rl_context* context,
                                       const rl_attention_forward_params* params) {
  return ridgeline::warm_up(context, params);
}

rl_status rl_attention_backward(rl_context* context, const rl_attention_backward_params* params) {
  return ridgeline::run(context, params);
}

rl_status rl_attention_backward_workspace(rl_context* context,
                                          const rl_attention_backward_params* params,
                                          size_t* bytes) {
  return ridgeline::workspace(context, params, bytes);
}

rl_status rl_attention_backward_warm_up(rl_context* context,
                                        const rl_attention_backward_params* params) {
  return ridgeline::warm_up(context, params);
}

rl_status rl_attention_forward_prepare(rl_context* context,
                                       const rl_attention_forward_params* params,
                                       rl_attention_call** call) {
  return ridgeline::prepare(context, params, call);
}

rl_status rl_attention_backward_prepare(rl_context* context,
                                        const rl_attention_backward_params* params,
                                        rl_attention_call** call) {
  return ridgeline::prepare(context, params, call);
}

rl_status rl_attention_call_run(const rl_attention_run* run) {
  return ridgeline::run_again(run);
}

void rl_attention_call_destroy(rl_attention_call* call) {
  delete call;
}

}  // extern "C"
