// Parses the command line, runs one command, and turns errors into messages and exit codes.
#pragma once

namespace ridgeline {

int run_program(int argc, char** argv);

}  // namespace ridgeline
