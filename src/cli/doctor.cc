// ridgeline doctor: what was found on this machine, what is missing, and how to get it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/print.h"
#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/doctor.h"
#include "cli/open_device.h"
#include "cli/parse_flags.h"
#include "measure/process_memory.h"
#include "studies/ranks/group.h"

namespace ridgeline {
namespace {

int run_command(DeviceFlags flags) {
  parse_device(flags.device);  // throws for an unknown device
  flags.device = "cpu";        // a GPU is inspected without opening it
  const MachineFacts machine = collect_machine_facts();
  const BuildFacts build = build_facts();
  const std::unique_ptr<Device> device = open_device(flags);
  const std::string quota =
      machine.cpu_quota_cores ? fmt::format(", quota of {:.1f}", *machine.cpu_quota_cores) : "";

  print("Program\n");
  doctor_line("version", fmt::format("{} ({}, commit {})", build.version, build.build_type,
                                     build.git_commit.empty() ? "unknown" : build.git_commit));
  doctor_line("compiler", build.compiler);
  print("Machine\n");
  doctor_line("processor", fmt::format("{}, {} logical cores{}", machine.cpu_model,
                                       machine.logical_cores, quota));
  doctor_line("instruction sets", fmt::format("{}", fmt::join(machine.isa, " ")));
  doctor_line("clock", fmt::format("{:.0f} MHz measured, {:.0f} MHz reported by {}",
                                   machine.measured_clock_mhz.value_or(0),
                                   machine.max_clock_mhz.value_or(0), machine.max_clock_source));
  for (const Cache& cache : machine.caches)
    doctor_line(fmt::format("cache L{} {}", cache.level, cache.type), to_string(cache.size));
  doctor_line("memory", fmt::format("{} in all, {} available", to_string(machine.memory_total),
                                    to_string(machine.memory_available)));
  doctor_line("system", fmt::format("{}, Linux {}", machine.os, machine.kernel));
  doctor_line("load", fmt::format("{:.2f}{}", machine.load_average.value_or(0),
                                  machine.load_average.value_or(0) > 0.5
                                      ? " (other work runs here: expect noise)"
                                      : ""));
  doctor_line("fingerprint", machine.fingerprint);
  print("CPU device\n");
  doctor_line("kernels", device->description());
  doctor_line("memory budget", to_string(device->ledger().budget()));
  doctor_line("peak resident size",
              reset_peak_rss() ? "can be measured per row"
                               : "cannot be reset here: rows record no growth of the process");
  print("Ranks\n");
  for (const RankBackend& backend : kRankBackends) {
    const std::string name(backend.name), why = missing_backend(name, nullptr);
    doctor_line(name, why.empty() ? std::string(backend.summary) : "not here: " + why);
  }
  print_cuda_facts();
  return 0;
}

}  // namespace

Run add_doctor_command(CLI::App& app) {
  auto flags = std::make_shared<DeviceFlags>();
  CLI::App* command =
      app.add_subcommand("doctor", "what was found on this machine, and what is missing");
  Flags declared;
  add_device_flags(declared, flags.get());
  add_flags(*command, declared);
  command->footer("Example: ridgeline doctor --device cuda");
  return [flags] { return run_command(*flags); };
}

}  // namespace ridgeline
