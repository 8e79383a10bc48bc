// Programs run as children, without a shell.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace ridgeline {

// Starts a program; its output and errors go to `log`. Throws an environment error when it cannot
// be started. Gives the number of the process.
int start_process(const std::vector<std::string>& words, const std::filesystem::path& log);

// Waits for it. Gives how it failed, such as "exited with status 1"; empty: it did not.
std::string wait_for_process(int process);

}  // namespace ridgeline
