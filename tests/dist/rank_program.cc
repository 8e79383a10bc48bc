// A rank for tests of launching: joins the others and passes barriers until it is told to stop, or
// does as it is told to fail.
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <iostream>
#include <string>

#include "base/error.h"
#include "dist/world.h"

int main(int argc, char** argv) {
  using namespace ridgeline;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const std::string what = argc > 1 ? argv[1] : "";
  try {
    const LaunchedRank launched = *launched_rank();
    if (what == "never joins" && launched.rank == 1) pause();
    World world(launched, {.build = what == "another build" && launched.rank == 1 ? "2" : "1",
                           .configuration = {},
                           .join_s = what == "never joins" ? 1.0 : 20.0});
    if (what == "throws" && launched.rank == 1) throw Error(ErrorKind::usage, "no such model");
    if (launched.rank == 0) std::cout << "joined " << world.size() << std::endl;
    for (int step = 0;; ++step) {
      world.activity().set("step " + std::to_string(step));
      world.store().barrier("step", 60);
      if (launched.rank == 0) {
        std::string line;
        const bool goes_on = what == "runs" || (what == "stops" && step < 3);
        world.store().set("go " + std::to_string(step), goes_on ? "on" : "stop");
        if (!goes_on) break;
      } else if (world.store().get("go " + std::to_string(step), 60) != "on") {
        break;
      }
    }
    if (launched.rank == 0) std::cout << "done" << std::endl;
    return 0;
  } catch (const Error& error) {
    std::cerr << error.what() << std::endl;
    return exit_code(error.kind());
  }
}
