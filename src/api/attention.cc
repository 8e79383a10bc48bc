// Attention and its gradients through the C interface: a checked call is prepared once, and run.
#include <fmt/format.h>

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

PreparedCalls::Entry& find(rl_context& context, const Request& request, bool ready) {
  const CallKey key = request.key();
  PreparedCalls::Entry* entry = context.calls.find(key);
  if (entry != nullptr && (entry->call != nullptr || !ready)) return *entry;
  const AttentionCall call = request.call();
  PreparedCalls::Entry made;
  made.scratch = context.runs->scratch(call);
  if (ready) made.call = context.runs->prepare(call);
  return context.calls.add(key, std::move(made));
}

// The caller's workspace, or the context's.
template <class Params>
char* workspace_of(rl_context& context, const Params& params, const Request& request,
                   Bytes needed) {
  if (params.workspace != nullptr) {
    expect_workspace(params.workspace, params.workspace_bytes, static_cast<size_t>(needed.count),
                     {request.inputs.span(), request.outputs.span()});
    return static_cast<char*>(params.workspace);
  }
  if (params.workspace_bytes != 0)
    throw invalid(fmt::format("workspace is null, but workspace_bytes {}", params.workspace_bytes),
                  "pass the workspace, or 0 bytes");
  return needed.count > 0 ? static_cast<char*>(context.runs->workspace(needed)) : nullptr;
}

template <class Params>
rl_status run(rl_context* given_context, const Params* given) noexcept {
  return guarded([&] {
    rl_context& context = require(given_context);
    const Params params = read_params(given, "params");
    const std::lock_guard lock(context.mutex);
    const Request request = read_request(params, {.device = context.device});
    const DeviceScope scope(*context.runs, stream_of(params));
    const PreparedCalls::Entry& entry = find(context, request, true);
    const Bytes room = request.log_sum_exp_room();
    char* memory = workspace_of(context, params, request, room + entry.scratch);
    std::array<void*, 6 + kMaxScoreOperands> inputs, outputs;
    size_t input_count = 0, output_count = 0;
    for (const ClaimedTensor& tensor : request.inputs.span())
      inputs[input_count++] = tensor.view.data;
    for (const ClaimedTensor& tensor : request.outputs.span())
      outputs[output_count++] = tensor.view.data;
    if (!request.keeps_log_sum_exp) outputs[output_count++] = memory;
    entry.call->run({inputs.data(), input_count}, {outputs.data(), output_count},
                    entry.scratch.count > 0 ? memory + room.count : nullptr);
  });
}

template <class Params>
rl_status workspace(rl_context* given_context, const Params* given, size_t* bytes) noexcept {
  return guarded([&] {
    rl_context& context = require(given_context);
    const Params params = read_params(given, "params");
    if (bytes == nullptr) throw invalid("bytes is null", "pass where the size is to be stored");
    const std::lock_guard lock(context.mutex);
    const Request request = read_request(params, {.device = context.device, .needs_data = false});
    *bytes = static_cast<size_t>(
        (request.log_sum_exp_room() + find(context, request, false).scratch).count);
  });
}

template <class Params>
rl_status warm_up(rl_context* given_context, const Params* given) noexcept {
  return guarded([&] {
    rl_context& context = require(given_context);
    const Params params = read_params(given, "params");
    const std::lock_guard lock(context.mutex);
    const Request request = read_request(params, {.device = context.device, .needs_data = false});
    const DeviceScope scope(*context.runs, stream_of(params));
    const PreparedCalls::Entry& entry = find(context, request, true);
    if (params.workspace == nullptr)
      workspace_of(context, params, request, request.log_sum_exp_room() + entry.scratch);
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

}  // extern "C"
