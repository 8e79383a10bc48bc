// The entry point, in its own file so that tests can link the commands.
#include "cli/program.h"

int main(int argc, char** argv) {
  return ridgeline::run_program(argc, argv);
}
