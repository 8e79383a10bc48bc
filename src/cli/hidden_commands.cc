// Hidden commands: child processes of studies, which communicate in lines.
#include <sys/prctl.h>

#include <csignal>
#include <iostream>
#include <memory>

#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/open_device.h"
#include "cli/parse_flags.h"
#include "studies/frontier/probe.h"
#include "studies/kernel/own_worker.h"
#include "studies/ranks/world.h"

namespace ridgeline {

Run add_frontier_probe_command(CLI::App& app) {
  struct Given {
    ProbeFlags probe;
    DeviceFlags device;
  };
  const auto given = std::make_shared<Given>();
  Flags flags;
  add_probe_flags(flags, &given->probe);
  add_device_flags(flags, &given->device);
  add_flags(*app.add_subcommand(kFrontierProbeCommand, "tries one length and answers in one line")
                 ->group(""),
            flags);
  return [given] {
    prepare_probe_process();
    answer_probe(given->probe, *open_device(given->device));
    return 0;
  };
}

Run add_own_kernel_worker_command(CLI::App& app) {
  app.add_subcommand(kOwnKernelWorkerCommand, "answers requests on stdin")->group("");
  return [] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve_own_kernel(std::cin, std::cout);
    return 0;
  };
}

Run add_rank_command(CLI::App& app) {
  app.add_subcommand(kRankCommand, "a rank of a study")->group("");
  return [] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    const BuildFacts build = build_facts();
    return serve_rank(build.version + " " + build.git_commit, std::cin, std::cout);
  };
}

}  // namespace ridgeline
