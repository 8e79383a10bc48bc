#include "cli/options.h"

#include <fmt/format.h>

#include <atomic>
#include <csignal>

#include "base/error.h"
#include "cli/build_facts.h"

namespace ridgeline {
namespace {

std::atomic<bool> interrupt_seen{false};
static_assert(std::atomic<bool>::is_always_lock_free, "set from a signal handler");

void on_interrupt(int) {
  interrupt_seen = true;
  std::signal(SIGINT, SIG_DFL);
}

std::string at_least_one(const std::string& text) {
  int64_t value = 0;
  if (!CLI::detail::lexical_cast(text, value)) return fmt::format("'{}' is not a whole number", text);
  return value >= 1 ? std::string() : fmt::format("{} is not a size; sizes are at least 1", text);
}

}  // namespace

void add_device_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device, "auto, cpu or cuda")->capture_default_str();
  app.add_option("--threads", flags.threads, "threads of the CPU (default: all that this process may use)")
      ->check(CLI::Range(1, 4096));
  app.add_option("--memory-budget", flags.memory_budget,
                 "most memory for tensors, such as 4GiB (default: what is available less a margin)");
}

std::unique_ptr<CpuDevice> open_device(const DeviceFlags& flags) {
  if (flags.device == "cuda")
    throw Error(ErrorKind::unsupported, "--device cuda: this build has no CUDA backend",
                "use --device cpu; `ridgeline doctor` lists what was found");
  if (flags.device != "auto" && flags.device != "cpu")
    throw Error(ErrorKind::usage, fmt::format("'{}' is not a device", flags.device), "use auto, cpu or cuda");
  CpuOptions options;
  if (flags.threads > 0) options.threads = flags.threads;
  if (!flags.memory_budget.empty()) options.ledger.budget = parse_bytes(flags.memory_budget);
  return std::make_unique<CpuDevice>(std::move(options));
}

void add_protocol_flags(CLI::App& app, ProtocolFlags& flags) {
  app.add_option("--num-warmup", flags.warmups, "untimed runs before the first sample")
      ->check(CLI::Range(0, 1000000))
      ->capture_default_str();
  app.add_option("--num-iterations", flags.iterations, "samples per row")
      ->check(CLI::Range(1, kMaxIterations))
      ->capture_default_str();
  app.add_option("--time-budget", flags.time_budget,
                 "seconds per row instead of a fixed number of samples; ends early when the median is known to 1 %");
}

Protocol make_protocol(const ProtocolFlags& flags) {
  Protocol protocol{.warmups = flags.warmups, .iterations = flags.iterations};
  if (!flags.time_budget.empty()) protocol.time_budget_s = parse_seconds(flags.time_budget);
  return protocol;
}

CLI::Option* add_sizes(CLI::App& app, const std::string& flag, std::vector<int64_t>& sizes,
                       const std::string& description) {
  return app.add_option(flag, sizes, description)->delimiter(',')->check(CLI::Validator(at_least_one, "SIZE"));
}

Record blank_record() {
  Record record;
  record.machine = collect_machine_facts();
  record.build = build_facts();
  return record;
}

bool interrupted() { return interrupt_seen; }

void watch_for_interrupts() { std::signal(SIGINT, on_interrupt); }

}  // namespace ridgeline
