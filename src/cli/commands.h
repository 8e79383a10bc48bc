// The commands of the program; each function adds one to the parser and returns its action.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace ridgeline {

using Run = std::function<int()>;  // the exit code

struct StudyInfo;
Run add_command_of(CLI::App& app, const StudyInfo& study);
Run add_doctor_command(CLI::App& app);
Run add_study_command(CLI::App& app);
Run add_report_command(CLI::App& app);
Run add_completion_command(CLI::App& app);
Run add_man_command(CLI::App& app);
Run add_compare_command(CLI::App& app);
Run add_noise_command(CLI::App& app);
Run add_history_command(CLI::App& app);

// Hidden commands: facts for other programs, and child processes of studies.
Run add_facts_command(CLI::App& app);
Run add_frontier_probe_command(CLI::App& app);
Run add_own_kernel_worker_command(CLI::App& app);
Run add_rank_command(CLI::App& app);

}  // namespace ridgeline
