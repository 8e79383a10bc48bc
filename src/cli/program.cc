#include "cli/program.h"

#include <fmt/format.h>

#include <cstdio>
#include <filesystem>
#include <functional>
#include <new>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/print.h"
#include "base/printable.h"
#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/parse_errors.h"
#include "report/terminal/colour.h"
#include "studies/studies.h"

namespace ridgeline {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  ridgeline study                                     everything, at a size that fits this "
    "machine\n"
    "  ridgeline attention --seq-len 256 1024 --d-model 64 six rows of the attention study\n"
    "  ridgeline attention --preset cs336 --resume         the whole grid, going on where it "
    "stopped\n"
    "  ridgeline kernel --shape 32,8,256,64 --mode hot     one kernel: latency, rates, raw "
    "samples\n"
    "  ridgeline model --context-length 128                a whole transformer, vanilla and "
    "compiled\n"
    "  ridgeline memory --seq-len 8192 --d-model 16        where the memory goes\n"
    "  ridgeline report results -o report.html             what was measured, as one page to "
    "read\n"
    "  ridgeline roofline && ridgeline gemm                the roof of this machine, and products "
    "below it\n"
    "  ridgeline cost layer --dtype bf16 --gpu A100,H100   what it costs on GPUs that are not "
    "here\n"
    "  ridgeline compare before.jsonl after.jsonl --gate slower:3%   is it faster, and is that "
    "noise\n"
    "  ridgeline doctor                                    what was found here, and what is "
    "missing\n"
    "\n"
    "Exit codes: 0 ok, 1 a gate failed, 2 bad usage or input, 3 a result was wrong, 4 the device "
    "or\n"
    "environment failed, 5 a gate could not judge a row, 130 interrupted.";

// Refuses `--flag=`, for which CLI11 would take the next word as the value, even another flag.
void refuse_missing_values(int argc, char** argv) {
  for (int i = 1; i < argc && std::string_view(argv[i]) != "--"; ++i) {
    const std::string_view word = argv[i];
    if (word.starts_with("--") && word.find('=') + 1 == word.size())
      throw Error(ErrorKind::usage, fmt::format("{} has no value", printable(word, 60)),
                  "write it behind the sign, or leave the flag out");
  }
}

// Explains why the folder of --dump-kernels is empty.
void say_if_nothing_was_dumped(const CLI::App& command) {
  const CLI::Option* option = command.get_option_no_throw("--dump-kernels");
  if (option == nullptr || option->count() == 0) return;
  const std::filesystem::path folder = option->as<std::string>();
  std::error_code missing;
  if (std::filesystem::is_empty(folder, missing) || missing)
    say("no kernel was generated, so --dump-kernels left '{}' empty", folder.string());
}

int run(int argc, char** argv) {
  CLI::App app("Ridgeline measures attention and transformers: time, memory, distance to the roof.",
               "ridgeline");
  app.set_version_flag("--version", fmt::format("ridgeline {}", build_facts().version));
  app.footer(kFooter);
  app.require_subcommand(1);
  struct Entry {
    CLI::App* app;
    Run run;
  };
  std::vector<Entry> entries;
  const auto add = [&](const std::function<Run(CLI::App&)>& command) {
    Run run = command(app);
    entries.push_back({app.get_subcommands({}).back(), std::move(run)});
  };
  for (const StudyInfo& info : studies())
    add([&](CLI::App& to) { return add_command_of(to, info); });
  for (auto command :
       {add_frontier_probe_command, add_doctor_command, add_study_command, add_report_command,
        add_compare_command, add_noise_command, add_history_command, add_completion_command,
        add_man_command, add_facts_command, add_own_kernel_worker_command, add_rank_command})
    add(command);
  if (argc > 1 && argv[1][0] != '-') expect_command(app, argv[1]);
  refuse_missing_values(argc, argv);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    const bool asked_for_help = error.get_exit_code() == 0;
    if (!asked_for_help) throw usage_error(error, app);
    app.exit(error);
    return 0;
  }
  for (const Entry& entry : entries) {
    if (!entry.app->parsed()) continue;
    refuse_odd_values(*entry.app);
    const int code = entry.run();
    say_if_nothing_was_dumped(*entry.app);
    return code;
  }
  return 2;
}

int failed(int exit_code, const std::string& what) {
  const std::string name = painted(shows_colour(stderr) ? Tone::bad : Tone::plain, "ridgeline:");
  write_text(stderr, fmt::format("{} {}\n", name, what));
  return exit_code;
}

}  // namespace

int run_program(int argc, char** argv) {
  prepare_standard_streams();
  try {
    const int code = run(argc, argv);
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0)
      throw Error(ErrorKind::environment, "the output could not be written", "is the disk full?");
    return code;
  } catch (const Interrupted&) {
    return kInterruptedExit;
  } catch (const Error& error) {
    return failed(exit_code(error.kind()), error.what());
  } catch (const std::bad_alloc&) {
    return failed(exit_code(ErrorKind::out_of_memory),
                  "out of memory; next step: give smaller sizes, or raise the limit (ulimit -v)");
  } catch (const std::exception& error) {
    return failed(exit_code(ErrorKind::internal), fmt::format("unexpected: {}", error.what()));
  }
}

}  // namespace ridgeline
