// Command lines: every command's flags with any values, and what a dry run makes of them; sizes,
// durations, gates, devices, and the comments of own kernels.
#include <sstream>

#include "base/units.h"
#include "cli/command_tree.h"
#include "cli/open_device.h"
#include "fuzz/fuzz.h"
#include "fuzz/in_process.h"
#include "measure/gate.h"
#include "studies/kernel/own_source.h"
#include "studies/studies.h"

namespace ridgeline {
namespace {

struct Command {
  std::string_view name;
  AddCommand add;
  bool dry_run = false;  // quick, and touches no file
};
std::vector<Command> all_commands() {
  std::vector<Command> commands = {
      {"study", add_study_command},     {"report", add_report_command},
      {"compare", add_compare_command}, {"noise", add_noise_command},
      {"history", add_history_command}, {"frontier-probe", add_frontier_probe_command}};
  constexpr std::string_view kSlow[] = {"model", "profile", "roofline"};
  for (const StudyInfo& info : studies())
    commands.push_back({info.name, [&info](CLI::App& app) { return add_command_of(app, info); },
                        std::ranges::find(kSlow, info.name) == std::end(kSlow)});
  return commands;
}
const std::vector<Command> kCommands = all_commands();

std::vector<std::string> flags_of_all() {
  CLI::App app;
  for (const Command& command : kCommands) command.add(app);
  std::vector<std::string> words;
  for (const CommandFacts& command : program_facts(app).commands)
    for (const OptionFacts& option : command.options) {
      for (const std::string& name : option.names) words.push_back("\n" + name + "\n");
      for (const std::string& choice : option.choices) words.push_back(choice + ",");
    }
  return words;
}

bool may_run(const std::vector<std::string>& words) {
  // What opens a device of its own, makes files, runs after all, or builds a model of 2^24 layers.
  for (const char* flag : {"--dry-run", "--device", "--threads", "--dump-kernels", "--layers",
                           "--model-size", "--source", "--explain", "--memory-budget"})
    for (const std::string& word : words)
      if (word.find(flag) != std::string::npos) return false;
  return true;
}

void parse_and_try(const std::string& input) {
  std::vector<std::string> words;
  std::istringstream lines(input);
  for (std::string word; std::getline(lines, word);) {
    std::replace(word.begin(), word.end(), '/', '_');  // no file of somebody else
    words.push_back(word);
  }
  for (const Command& command : kCommands) {
    if (words.empty() || words[0] != command.name) continue;
    CLI::App app;
    const bool runs = command.dry_run && may_run(words);
    // In front, where no flag that lacks its value can take one of them for it.
    if (runs) words.insert(words.begin() + 1, {"--dry-run", "--device", "cpu", "--threads", "1"});
    const Run run = parse_command(app, command.add, words);
    if (runs) run();
  }
}

TEST(SlowFuzz, Flags) {
  const TempDir folder;
  std::filesystem::current_path(folder.path());
  fuzz(
      {.name = "Flags",
       .seeds = {"attention\n--impl\nnaive,flash\n--seq-len\n256,1024\n--d-model\n64\n--causal",
                 "attention\n--preset\ncs336\n--dtype\nfp32,bf16\n--heads\n1,2\n--batch-size\n8",
                 "kernel\n--shape\n32,8,256,64\n--mode\nhot\n--backward\n--dtype\nbf16",
                 "gemm\n--size\n64,128\n--impl\nlibrary\n--op\ngemm,gemv\n--shape\n64,64,64",
                 "memory\n--seq-len\n8192\n--d-model\n16\n--batch-size\n8\n--heads\n2",
                 "frontier\n--impl\nnaive,flash\n--batch-size\n1,8\n--d-model\n64\n--step\n128",
                 "model\n--context-length\n128,256\n--mode\ncompiled\n--max-norm\n1.5\n--seed\n42",
                 "compare\nbase.jsonl\nnew.jsonl\n--gate\nslower:3%\n--tolerance\n1%",
                 "noise\n--comparisons\n10\nattention", "history\n--where\nseq_len=1024\n--last\n3",
                 "report\nresults\n-o\nreport.html\n--figure\nlatency",
                 "study\n--time-budget\n200ms\n--memory-budget\n4GiB",
                 "roofline\n--dtype\nfp32\n--settle-time\n3s\n--size\n1024",
                 "frontier-probe\n--seq-len\n128\n--method\nrun\n--batch-size\n1"},
       .words = flags_of_all(),
       .run = parse_and_try});
}

// Each of these is short and is asked by itself.
TEST(SlowFuzz, Values) {
  const AttentionConfig config{.batch_size = 2, .heads = 3, .seq_len = 100, .head_dim = 64};
  const std::function<void(const std::string&)> parsers[] = {
      [](const std::string& text) { to_string(parse_bytes(text)); },
      [](const std::string& text) { format_seconds(parse_seconds(text)); },
      [](const std::string& text) { parse_gate(text); },
      [](const std::string& text) { parse_device(text); },
      [](const std::string& text) { parse_memory_budget(text); },
      [](const std::string& text) { parse_time_budget(text); },
      [&](const std::string& text) { own_launch(text, config); },
  };
  fuzz({.name = "Values",
        .seeds = {"4GiB", "1.5 KiB", "500ms", "1.5min", "slower:3%", "geomean:1%", "unclear",
                  "cuda:1",
                  "// ridgeline: grid = (seq_len + 63) / 64, heads, batch\n// ridgeline: block = "
                  "128\n// ridgeline: shared = 2 * 64 * head_dim * element_bytes\n"},
        .words = {"GiB", "ms", "e", "%", ":", "1e400", "// ridgeline: block = ", "(", ")", "*"},
        .run =
            [&](const std::string& input) {
              for (const auto& parser : parsers) {
                try {
                  parser(input);
                } catch (const Error& error) {
                  if (error.kind() == ErrorKind::internal) throw;
                }
              }
            },
        .inputs = 20000});
}

}  // namespace
}  // namespace ridgeline
