// Completions and the manual page: what shells and groff make of them.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "base/child_process.h"
#include "base/json.h"
#include "cli/run_ridgeline.h"
#include "cost/device_specs.h"

namespace ridgeline {
namespace {

std::string text_of(const Arguments& arguments) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(arguments, without_cuda());
  EXPECT_EQ(run.exit_code, 0) << run.err;
  return run.out;
}

// What bash offers for the last of `words`.
std::set<std::string> completed(const std::string& line) {
  const TempDir directory;
  write_text(directory / "completion", text_of({"completion", "bash"}));
  const std::string script = "source " + (directory / "completion").string() +
                             "\nread -ra COMP_WORDS <<< '" + line + "'\n" +
                             (line.back() == ' ' ? "COMP_WORDS+=('')\n" : "") +
                             "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_ridgeline\n"
                             "echo \"${COMPREPLY[@]}\"\n";
  ChildProcess bash({"/bin/bash", "-c", script});
  const ChildProcess::Reply reply = bash.read_line({});
  std::istringstream words(reply.line);
  std::set<std::string> found;
  for (std::string word; words >> word;) found.insert(word);
  return found;
}

using Completions = std::set<std::string>;

TEST(Completion, BashKnowsCommandsOptionsAndValues) {
  EXPECT_EQ(completed("ridgeline att"), Completions{"attention"});
  EXPECT_TRUE(completed("ridgeline ").contains("kernel"));
  EXPECT_FALSE(completed("ridgeline ").contains("own-kernel-worker")) << "it is not for people";
  EXPECT_EQ(completed("ridgeline attention --seq"), Completions{"--seq-len"});
  EXPECT_EQ(completed("ridgeline attention --preset c"), Completions{"cs336"});
  EXPECT_EQ(completed("ridgeline kernel --tune q"), Completions{"quick"})
      << "choices that the parser checks";
  EXPECT_EQ(completed("ridgeline kernel --mode cold"), (Completions{"cold", "cold-rotate"}));
  EXPECT_EQ(completed("ridgeline attention --impl naive,torch.sdpa.c"),
            Completions{"naive,torch.sdpa.cudnn"});
  EXPECT_EQ(completed("ridgeline completion f"), Completions{"fish"});
  EXPECT_EQ(completed("ridgeline kernel --backward t"), Completions{"two-pass"});
  EXPECT_EQ(completed("ridgeline attention --backward-algorithm single-pass,t"),
            Completions{"single-pass,two-pass"})
      << "an older name";
  EXPECT_EQ(completed("ridgeline model --impl v"), Completions{"vanilla"});
  EXPECT_EQ(completed("ridgeline gemm --impl l"), Completions{"library"});
  EXPECT_EQ(completed("ridgeline comm --collective al"),
            (Completions{"all", "all-reduce", "all-gather"}));
  EXPECT_EQ(completed("ridgeline ddp --backend mp"), (Completions{"mpi", "mpich"}));
  EXPECT_EQ(completed("ridgeline cost self"), Completions{"self-attention"});
  EXPECT_EQ(completed("ridgeline cost gemm --gpu T4,H100-P"), Completions{"T4,H100-PCIe"});
  const Completions flags = completed("ridgeline attention -");
  for (const char* flag : {"-o", "-w", "-r", "--json", "--head-dim", "--warmup-steps"})
    EXPECT_TRUE(flags.contains(flag)) << flag;
}

TEST(Completion, ShellsAcceptTheirScripts) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::filesystem::path program = find_program(shell);
    const std::string script = text_of({"completion", shell});
    EXPECT_TRUE(contains(script, "seq-len")) << shell;
    EXPECT_TRUE(contains(script, "torch.sdpa.cudnn")) << shell;
    if (program.empty()) continue;
    const TempDir directory;
    write_text(directory / "completion", script);
    ChildProcess check({program.string(), "-n", (directory / "completion").string()});
    EXPECT_EQ(check.end(20), "exit code 0") << shell << ": " << check.last_errors();
  }
}

TEST(Completion, AnotherShellIsBadUsage) {
  const Sandbox sandbox;
  EXPECT_EQ(sandbox.run({"completion", "csh"}, without_cuda()).exit_code, 2);
}

TEST(Facts, TellOtherProgramsOfCommandsGpusAndModels) {
  const Json facts = Json::parse(text_of({"facts"}));
  bool has_seq_len = false;
  for (const Json& option : facts["commands"]["attention"]["options"])
    for (const Json& name : option["names"]) has_seq_len |= name == "--seq-len";
  EXPECT_TRUE(has_seq_len);
  EXPECT_FALSE(facts["commands"].contains("own-kernel-worker")) << "it is not for people";
  EXPECT_EQ(facts["gpus"].size(), gpu_specs().size());
  EXPECT_EQ(facts["gemma3"]["270m"]["hidden_size"], 640);
  EXPECT_EQ(facts["transformers"]["small"]["num_layers"], 12);
}

TEST(Manual, HasEveryCommandAndIsGoodRoff) {
  const std::string page = text_of({"man"});
  for (const char* part :
       {".TH RIDGELINE 1", ".SS \"ridgeline attention\"", "\\-\\-seq\\-len", "NO_COLOR", "COLUMNS",
        "RIDGELINE_PYTHON", "MASTER_ADDR", "RIDGELINE_PLUGINS", "RIDGELINE_PORT",
        "5 a gate could not judge", "\\-\\-json", "\\-\\-head\\-dim"})
    EXPECT_TRUE(contains(page, part)) << part;
  EXPECT_FALSE(contains(page, "own\\-kernel\\-worker"));
  if (find_program("groff").empty()) GTEST_SKIP() << "no groff";
  const TempDir directory;
  write_text(directory / "page", page);
  ChildProcess groff({find_program("groff").string(), "-man", "-ww", "-Tutf8", "-z",
                      (directory / "page").string()});
  EXPECT_EQ(groff.end(20), "exit code 0");
  EXPECT_EQ(groff.last_errors(), "");
}

}  // namespace
}  // namespace ridgeline
