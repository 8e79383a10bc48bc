#include "cli/open_device.h"

#include <fmt/format.h>

#include "base/closest.h"
#include "base/error.h"
#include "base/parse_number.h"
#include "base/print.h"
#include "cli/interrupt.h"
#include "jit/cuda_libraries.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline {

DeviceChoice parse_device(const std::string& text) {
  if (text == "auto") return {};
  if (text == "cpu") return {DeviceChoice::Kind::cpu};
  if (text == "cuda") return {DeviceChoice::Kind::cuda};
  constexpr std::string_view kPrefix = "cuda:";
  if (text.starts_with(kPrefix)) {
    const std::optional<int> ordinal = parse_number<int>(text.substr(kPrefix.size()));
    if (ordinal && *ordinal >= 0) return {DeviceChoice::Kind::cuda, *ordinal};
  }
  throw unknown_name(text, {.what = "a device", .names = {"auto", "cpu", "cuda", "cuda:N"}});
}

namespace {

Tuning parse_tuning(const std::string& text) {
  return text == "full" ? Tuning::full : text == "quick" ? Tuning::quick : Tuning::off;
}

CompileHook kernels_compiled(const StageHook& stage) {
  if (!stage) return {};
  return [stage](size_t ready, size_t wanted) {
    stage(fmt::format("{} of {} kernels compiled", ready, wanted));
  };
}

std::unique_ptr<Device> open_cpu(const DeviceFlags& flags, const StageHook& stage) {
  CpuOptions options;
  options.compiler.dump_dir = flags.dump_kernels;
  options.compiler.compiled = kernels_compiled(stage);
  options.compiler.interrupted = interrupted;
  if (flags.threads > 0) options.threads = flags.threads;
  if (!flags.memory_budget.empty())
    options.ledger.budget = parse_memory_budget(flags.memory_budget);
  return std::make_unique<CpuDevice>(std::move(options));
}

std::unique_ptr<Device> open_cuda(const DeviceFlags& flags, int ordinal, const StageHook& stage) {
  CudaOptions options{
      .ordinal = ordinal, .tuning = parse_tuning(flags.tune), .deterministic = flags.deterministic};
  options.jit.dump_dir = flags.dump_kernels;
  options.jit.compiled = kernels_compiled(stage);
  if (!flags.memory_budget.empty()) options.budget = parse_memory_budget(flags.memory_budget);
  return std::make_unique<CudaDevice>(std::move(options));
}

}  // namespace

std::unique_ptr<Device> open_device(const DeviceFlags& flags, const StageHook& stage) {
  const DeviceChoice choice = parse_device(flags.device);
  if (choice.kind == DeviceChoice::Kind::cpu) return open_cpu(flags, stage);
  if (choice.kind == DeviceChoice::Kind::cuda) {
    try {
      return open_cuda(flags, choice.ordinal, stage);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      throw Error(error.kind(), fmt::format("--device {}: {}", flags.device, error.message()),
                  fmt::format("{}{}use --device cpu; `ridgeline doctor` lists what was found",
                              error.next_step(), error.next_step().empty() ? "" : "; or "));
    }
  }
  // Without a driver there is no GPU whose absence needs a message.
  if (!cuda_library("cuda")) return open_cpu(flags, stage);
  try {
    return open_cuda(flags, 0, stage);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage) throw;
    say("running on the CPU: {}", error.message());
    return open_cpu(flags, stage);
  }
}

}  // namespace ridgeline
