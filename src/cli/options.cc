#include "cli/options.h"

#include <fmt/format.h>

#include <charconv>

#include "base/error.h"

namespace ridgeline {
namespace {

std::string at_least_one(const std::string& text) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size())
    return fmt::format("'{}' is not a whole number below 2^63", text);
  return value >= 1 ? std::string() : fmt::format("{} is not a size; sizes are at least 1", text);
}

}  // namespace

void add_device_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device, "auto, cpu or cuda")->capture_default_str();
  app.add_option("--threads", flags.threads,
                 "threads of the CPU (default: all that this process may use)")
      ->check(CLI::Range(1, 4096));
  app.add_option(
      "--memory-budget", flags.memory_budget,
      "most memory for tensors, such as 4GiB (default: what is available less a margin)");
}

std::unique_ptr<CpuDevice> open_device(const DeviceFlags& flags) {
  if (flags.device == "cuda")
    throw Error(ErrorKind::unsupported, "--device cuda: this build has no CUDA backend",
                "use --device cpu; `ridgeline doctor` lists what was found");
  if (flags.device != "auto" && flags.device != "cpu")
    throw Error(ErrorKind::usage, fmt::format("'{}' is not a device", flags.device),
                "use auto, cpu or cuda");
  CpuOptions options;
  if (flags.threads > 0) options.threads = flags.threads;
  if (!flags.memory_budget.empty()) options.ledger.budget = parse_bytes(flags.memory_budget);
  return std::make_unique<CpuDevice>(std::move(options));
}

std::string to_command(const DeviceFlags& flags, const CpuDevice& device) {
  const std::string budget =
      flags.memory_budget.empty()
          ? ""
          : fmt::format(" --memory-budget {}", device.ledger().budget().count);
  return fmt::format(" --device {} --threads {}{}", device.name(), device.threads(), budget);
}

std::string to_command(const Protocol& protocol) {
  const std::string amount = protocol.time_budget_s > 0
                                 ? fmt::format(" --time-budget {}", protocol.time_budget_s)
                                 : fmt::format(" --num-iterations {}", protocol.iterations);
  return fmt::format(" --num-warmup {}{}", protocol.warmups, amount);
}

void add_protocol_flags(CLI::App& app, ProtocolFlags& flags) {
  app.add_option("--num-warmup", flags.warmups, "untimed runs before the first sample")
      ->check(CLI::Range(0, kMaxIterations))
      ->capture_default_str();
  app.add_option("--num-iterations", flags.iterations, "samples per row")
      ->check(CLI::Range(1, kMaxIterations))
      ->capture_default_str();
  app.add_option("--time-budget", flags.time_budget,
                 "seconds per row instead of a fixed number of samples; ends early when the median "
                 "is known to 1 %");
}

Protocol make_protocol(const ProtocolFlags& flags) {
  Protocol protocol{.warmups = flags.warmups, .iterations = flags.iterations};
  if (!flags.time_budget.empty()) protocol.time_budget_s = parse_seconds(flags.time_budget);
  return protocol;
}

CLI::Option* add_sizes(CLI::App& app, const std::string& flag, std::vector<int64_t>& sizes,
                       const std::string& description) {
  return app.add_option(flag, sizes, description)
      ->delimiter(',')
      ->check(CLI::Validator(at_least_one, "SIZE"));
}

}  // namespace ridgeline
