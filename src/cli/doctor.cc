// ridgeline doctor: what this machine offers, what is missing, and how to get it.
#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "measure/process_memory.h"

namespace ridgeline {
namespace {

void line(const std::string& what, const std::string& found) {
  fmt::print("  {:<22}{}\n", what, found);
}

bool can_open(const char* library) {
  void* handle = dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

int run_command(const DeviceFlags& flags) {
  const MachineFacts machine = collect_machine_facts();
  const BuildFacts build = build_facts();
  const std::unique_ptr<CpuDevice> device = open_device(flags);
  const std::string quota =
      machine.cpu_quota_cores ? fmt::format(", quota of {:.1f}", *machine.cpu_quota_cores) : "";

  fmt::print("Program\n");
  line("version", fmt::format("{} ({}, commit {})", build.version, build.build_type,
                              build.git_commit.empty() ? "unknown" : build.git_commit));
  line("compiler", build.compiler);
  fmt::print("Machine\n");
  line("processor",
       fmt::format("{}, {} logical cores{}", machine.cpu_model, machine.logical_cores, quota));
  line("instruction sets", fmt::format("{}", fmt::join(machine.isa, " ")));
  line("clock", fmt::format("{:.0f} MHz measured, {:.0f} MHz reported by {}",
                            machine.measured_clock_mhz.value_or(0),
                            machine.max_clock_mhz.value_or(0), machine.max_clock_source));
  for (const Cache& cache : machine.caches)
    line(fmt::format("cache L{} {}", cache.level, cache.type), to_string(cache.size));
  line("memory", fmt::format("{} in all, {} available", to_string(machine.memory_total),
                             to_string(machine.memory_available)));
  line("system", fmt::format("{}, Linux {}", machine.os, machine.kernel));
  line("load",
       fmt::format(
           "{:.2f}{}", machine.load_average.value_or(0),
           machine.load_average.value_or(0) > 0.5 ? " (other work runs here: expect noise)" : ""));
  line("fingerprint", machine.fingerprint);
  fmt::print("CPU device\n");
  line("kernels", device->description());
  line("memory budget", to_string(device->ledger().budget()));
  line("peak resident size", reset_peak_rss()
                                 ? "can be measured per row"
                                 : "cannot be reset here: rows record no growth of the process");
  fmt::print("CUDA device\n");
  line("backend", "not part of this build: studies run on the CPU");
  line("NVIDIA driver",
       can_open("libcuda.so.1") ? "found" : "not found (it comes with the GPU's driver)");
  return 0;
}

}  // namespace

Run add_doctor_command(CLI::App& app) {
  auto flags = std::make_shared<DeviceFlags>();
  CLI::App* command =
      app.add_subcommand("doctor", "what was found on this machine, and what is missing");
  add_device_flags(*command, *flags);
  return [flags] { return run_command(*flags); };
}

}  // namespace ridgeline
