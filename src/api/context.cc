#include "api/context.h"

#include <fmt/format.h>

#include <exception>

#include "api/border.h"
#include "base/error.h"

namespace ridgeline {
namespace {

constexpr int kMostThreads = 1024;

std::unique_ptr<AttentionDevice> open(const rl_context_params& params) {
  if (params.threads < 0 || params.threads > kMostThreads)
    throw Error(ErrorKind::usage, fmt::format("params.threads is {}", params.threads),
                fmt::format("use 1 to {}, or 0 for all of the machine", kMostThreads));
  if (params.uses_stream != 0 && params.uses_stream != 1)
    throw Error(ErrorKind::usage, fmt::format("params.uses_stream is {}", params.uses_stream),
                "use 0 or 1");
  if (params.device.type == RL_CPU && params.device.id == 0) return open_cpu(params);
  if (params.device.type == RL_CUDA) return open_cuda(params);
  throw Error(
      ErrorKind::usage,
      fmt::format("params.device is {{type {}, id {}}}", params.device.type, params.device.id),
      "use {RL_CPU, 0}, or {RL_CUDA, number of the GPU}");
}

}  // namespace

void ContextTurn::outside(const std::function<void()>& work) {
  scope_.reset();
  lock_.unlock();
  std::exception_ptr problem;
  try {
    work();
  } catch (...) {
    problem = std::current_exception();
  }
  lock_.lock();
  scope_.emplace(*context_.runs, stream_);
  if (problem) std::rethrow_exception(problem);
}

}  // namespace ridgeline

extern "C" {

rl_status rl_context_create(const rl_context_params* given, rl_context** context) {
  return ridgeline::guarded([&] {
    if (context == nullptr)
      throw ridgeline::Error(ridgeline::ErrorKind::usage, "context is null",
                             "pass where the context is to be stored");
    *context = nullptr;
    rl_context_params params = {};
    params.device = {RL_CPU, 0};
    if (given != nullptr) params = ridgeline::read_params(given, "params");
    auto made = std::make_unique<rl_context>();
    made->device = params.device;
    made->runs = ridgeline::open(params);
    *context = made.release();
  });
}

void rl_context_destroy(rl_context* context) {
  delete context;
}

rl_status rl_context_synchronize(rl_context* context) {
  return ridgeline::guarded([&] {
    if (context == nullptr)
      throw ridgeline::Error(ridgeline::ErrorKind::usage, "context is null",
                             "make one with rl_context_create");
    const ridgeline::ContextTurn turn(*context, nullptr);
    context->runs->synchronize();
  });
}

}  // extern "C"
