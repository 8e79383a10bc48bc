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
Run add_gemm_command(CLI::App& app);
Run add_roofline_command(CLI::App& app);
Run add_frontier_command(CLI::App& app);
// Not for people: the child process that tries one length for `frontier`.
inline constexpr const char* kFrontierProbeCommand = "frontier-probe";
Run add_frontier_probe_command(CLI::App& app);
Run add_doctor_command(CLI::App& app);
Run add_study_command(CLI::App& app);
Run add_report_command(CLI::App& app);
Run add_completion_command(CLI::App& app);
Run add_man_command(CLI::App& app);
// Not for people: the child process that runs a kernel of the user's.
inline constexpr const char* kOwnKernelWorkerCommand = "own-kernel-worker";
Run add_own_kernel_worker_command(CLI::App& app);
Run add_compare_command(CLI::App& app);
Run add_noise_command(CLI::App& app);
Run add_history_command(CLI::App& app);

}  // namespace ridgeline
