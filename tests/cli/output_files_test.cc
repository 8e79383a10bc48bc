// Files that a user names: pipes, links, folders that are missing, and the run's own files. What
// cannot work is refused before the first row, and before earlier results move aside.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <thread>

#include "cli/run_ridgeline.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

Arguments one_attention_row(const Arguments& more = {}) {
  return tiny_attention({"--impl", "naive", "--d-model", "8", "--seq-len", "16"}) + more;
}

Arguments smallest_model(const Arguments& more) {
  return Arguments{"model", "--device",     "cpu",      "--threads",        "1", "--layers",
                   "1",     "--heads",      "1",        "--d-model",        "8", "--d-ff",
                   "8",     "--vocabulary", "10",       "--context-length", "4", "--batch-size",
                   "1",     "--mode",       "vanilla",  "--warmup-steps",   "1", "--measure-steps",
                   "1",     "--scenario",   "full-step"} +
         more;
}

// Everything below a folder with its content, but for what files hold of links.
std::map<std::string, std::string> all_files(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (std::error_code loop; entry.is_regular_file(loop))
      files[entry.path().string()] = read_text(entry.path());
  return files;
}

void expect_refused(const Sandbox& sandbox, const Arguments& arguments, const std::string& part) {
  const auto before = all_files(sandbox.path());
  RunOptions options;
  options.patience = std::chrono::seconds{20};
  const Finished run = sandbox.run(arguments, options);
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_TRUE(contains(run.err, part)) << run.err;
  EXPECT_EQ(all_files(sandbox.path()), before);
}

TEST(OutputFile, APipeWithoutAReaderIsRefused) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(one_attention_row()).exit_code, 0);
  ASSERT_EQ(mkfifo((sandbox / "pipe.csv").c_str(), 0600), 0);
  expect_refused(sandbox, one_attention_row({"--output", "pipe.csv"}),
                 "nobody reads from this pipe");
  ASSERT_EQ(mkfifo((sandbox / "page.html").c_str(), 0600), 0);
  expect_refused(sandbox, {"report", "results", "-o", "page.html"}, "nobody reads");
}

TEST(OutputFile, APipeWithAReaderGetsTheWholeTable) {
  const Sandbox sandbox;
  ASSERT_EQ(mkfifo((sandbox / "pipe.csv").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_text(sandbox / "pipe.csv"); });
  // The reader may come a moment later than the program.
  Finished run;
  for (int attempt = 0; attempt < 50; ++attempt) {
    run = sandbox.run(one_attention_row({"--output", "pipe.csv"}));
    if (run.exit_code != 2) break;
  }
  reader.join();
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(got, read_text(sandbox.attention("attention.csv")));
}

// The processes of --runs write no output of their own, however it is spelled.
TEST(OutputFile, OfSeveralRunsIsWrittenOnce) {
  const Sandbox sandbox;
  ASSERT_EQ(mkfifo((sandbox / "pipe.csv").c_str(), 0600), 0);
  std::string got;
  std::thread reader([&] { got = read_text(sandbox / "pipe.csv"); });
  Finished run;
  for (int attempt = 0; attempt < 50; ++attempt) {
    run = sandbox.run(one_attention_row({"-opipe.csv", "--runs", "2"}));
    if (run.exit_code != 2) break;
  }
  reader.join();
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(got, read_text(sandbox.attention("attention.csv")));
}

TEST(OutputFile, ALinkThatLeadsNowhereIsRefused) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(one_attention_row()).exit_code, 0);
  for (const char* target : {"nowhere/x.csv", "there.csv"}) {
    fs::remove(sandbox / "link.csv");
    fs::create_symlink(target, sandbox / "link.csv");
    expect_refused(sandbox, one_attention_row({"--output", "link.csv"}), target);
    EXPECT_TRUE(fs::is_symlink(sandbox / "link.csv"));
  }
  fs::create_symlink("loop.csv", sandbox / "loop.csv");
  expect_refused(sandbox, one_attention_row({"--output", "loop.csv"}), "loop.csv");
}

TEST(OutputFile, OfMissingFoldersOnlyTheLastIsMade) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(one_attention_row()).exit_code, 0);
  expect_refused(sandbox, one_attention_row({"--output", "a/b/out.csv"}),
                 "neither the folder 'a/b' nor 'a'");
  expect_refused(sandbox, {"report", "results", "-o", "a/b/c/page.html"}, "mkdir -p 'a/b/c'");
  expect_refused(sandbox, smallest_model({"--save-weights", "a/b/model.safetensors"}),
                 "mkdir -p 'a/b'");
  EXPECT_FALSE(fs::exists(sandbox / "a"));
  EXPECT_EQ(sandbox.run(one_attention_row({"--output", "a/out.csv"})).exit_code, 0);
  EXPECT_TRUE(fs::exists(sandbox / "a/out.csv"));
}

TEST(OutputFile, TheRunsOwnFilesAreRefused) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(one_attention_row()).exit_code, 0);
  fs::create_symlink("results/attention/attention.csv", sandbox / "link.csv");
  for (const std::string& output :
       {std::string("results/attention/attention.jsonl"), std::string("link.csv"),
        std::string("results/../results/attention/./attention.csv"),
        (sandbox / "results/attention/attention.csv").string()})
    expect_refused(sandbox, one_attention_row({"--output", output}), "is the file of the");
}

TEST(OutputFile, WeightsDoNotReplaceTheRunsOwnFiles) {
  const Sandbox sandbox;
  fs::create_directories(sandbox / "results");
  for (const char* weights : {"results/model/model.jsonl", "./results/model/model.csv"})
    expect_refused(sandbox, smallest_model({"--save-weights", weights}), "is the file of the");
  ASSERT_EQ(sandbox.run(smallest_model({})).exit_code, 0);
  fs::create_symlink("results/model", sandbox / "elsewhere");
  for (const char* weights : {"results/model/model.jsonl", "elsewhere/model.csv"})
    expect_refused(sandbox, smallest_model({"--save-weights", weights}), "is the file of the");
  expect_refused(sandbox, smallest_model({"--save-weights", "w.csv", "--output", "w.csv"}),
                 "is the file of --output");
  expect_refused(sandbox, smallest_model({"--save-weights", "results/history.sqlite"}),
                 "the history");
}

TEST(OutputFile, OfAWholeStudyReplacesNoneOfItsFiles) {
  const Sandbox sandbox;
  const Arguments study = {"study", "--threads", "1", "--only", "cost"};
  ASSERT_EQ(sandbox.run(study).exit_code, 0);
  fs::create_symlink("results/study/cost", sandbox / "elsewhere");
  for (const std::string& json :
       {std::string("results/study/cost/cost.jsonl"), std::string("elsewhere/cost.csv"),
        std::string("results/study/gemm/gemm.jsonl"), std::string("results/study/report.html"),
        std::string("results/history.sqlite")})
    expect_refused(sandbox, study + Arguments{"--json", json}, "is the file of the");
  expect_refused(sandbox, study + Arguments{"-o", "results/study/report.html"},
                 "is the file of the report");
  expect_refused(sandbox, study + Arguments{"--json", "x.md", "-o", "x.md"},
                 "is the file of --output");
}

// Somebody who may write into the folder foresees the name of the temporary file, and links it.
TEST(OutputFile, NobodyForeseesTheNameOfItsTemporary) {
  const Sandbox sandbox;
  write_text(sandbox / "victim", "precious");
  fs::create_directories(sandbox / "shared");
  const int status = in_child([&] {
    fs::create_symlink(sandbox / "victim",
                       sandbox / ("shared/out.csv." + std::to_string(getpid()) + ".tmp"));
    Arguments arguments = one_attention_row({"--output", "shared/out.csv"});
    arguments.insert(arguments.begin(), RIDGELINE_BINARY);
    std::vector<char*> argv;
    for (std::string& argument : arguments) argv.push_back(argument.data());
    argv.push_back(nullptr);
    if (chdir(sandbox.path().c_str()) != 0 || !freopen("/dev/null", "w", stdout)) return 98;
    execv(argv[0], argv.data());
    return 97;
  });
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(read_text(sandbox / "victim"), "precious");
  EXPECT_TRUE(fs::exists(sandbox / "shared/out.csv"));
}

// A disk without room for a byte, before the earlier results have moved aside.
TEST(OutputFile, NothingMovesAsideBeforeTheDiskIsKnownToTakeAByte) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(one_attention_row()).exit_code, 0);
  const auto before = all_files(sandbox.path());
  const Finished run = sandbox.run(one_attention_row(), {.limits = {{RLIMIT_FSIZE, 0}}});
  EXPECT_EQ(run.exit_code, 4) << run.err << " signal " << run.signal;
  EXPECT_TRUE(contains(run.err, "cannot write")) << run.err;
  EXPECT_EQ(all_files(sandbox.path()), before);
}

}  // namespace
}  // namespace ridgeline
