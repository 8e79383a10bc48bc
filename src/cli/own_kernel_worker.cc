// ridgeline own-kernel-worker: runs the user's kernel for `ridgeline kernel --source`, and dies
// with it.
#include <sys/prctl.h>

#include <csignal>
#include <iostream>

#include "cli/commands.h"
#include "studies/kernel/own_worker.h"

namespace ridgeline {

Run add_own_kernel_worker_command(CLI::App& app) {
  app.add_subcommand(kOwnKernelWorkerCommand, "answers requests on stdin")->group("");
  return [] {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve_own_kernel(std::cin, std::cout);
    return 0;
  };
}

}  // namespace ridgeline
