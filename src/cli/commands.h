// The commands of the program; each adds itself to the parser and returns what runs it.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace ridgeline {

using Run = std::function<int()>;  // the exit code

Run add_attention_command(CLI::App& app);
Run add_kernel_command(CLI::App& app);
Run add_model_command(CLI::App& app);
Run add_memory_command(CLI::App& app);
Run add_doctor_command(CLI::App& app);
Run add_study_command(CLI::App& app);

}  // namespace ridgeline
