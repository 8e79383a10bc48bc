// memory, doctor and study, as far as they are not the attention study.
#include <gtest/gtest.h>

#include <sstream>

#include "cli/csv.h"
#include "cli/run_ridgeline.h"
#include "measure/record_json.h"

namespace ridgeline {
namespace {

TEST(MemoryCommand, WritesTheAccountAndShowsIt) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run({"memory", "--batch-size", "2", "--seq-len", "64", "--d-model", "8"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(run.err, "");
  const std::string account = read_text(sandbox.attention("memory_analysis_d8_s64.txt"));
  ASSERT_NE(account, "");
  EXPECT_TRUE(contains(run.out, account));
  for (const char* part : {"inputs", "scores", "weights", "output", "Saved for backward",
                           "gradient", "grows as S^", "flash attention", "recomputed"})
    EXPECT_TRUE(contains(account, part)) << part;
  EXPECT_TRUE(contains(account, "(+0.00 %)")) << account;  // measured beside predicted
}

TEST(MemoryCommand, BeyondTheBudgetPredictsOnlyAndSaysSo) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"memory", "--memory-budget", "1MiB"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "above the budget of 1.00 MiB: predicted only")) << run.out;
  const std::string account = read_text(sandbox.attention("memory_analysis_d16_s8192.txt"));
  EXPECT_FALSE(contains(account, "measured by the ledger"));
  EXPECT_TRUE(contains(account, "2147483648")) << "bytes of one tensor of 8 x 8192 x 8192";
}

Arguments tiny_model_memory(const Arguments& more) {
  return Arguments{"memory", "--device", "cpu", "--model-size", "small", "--context-length", "8"} +
         Arguments{"--d-model", "16", "--d-ff", "24", "--layers", "1", "--heads", "2"} +
         Arguments{"--vocabulary", "40", "--batch-size", "2"} + more;
}

TEST(MemoryCommand, OfAWholeModelNeedsNoRun) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"memory", "--device", "cpu", "--model-size", "2.7B",
                                    "--precision", "mixed", "--memory-budget", "24GiB"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::string account =
      read_text(sandbox / "results/model/memory_analysis_2.7B_c512_mixed.txt");
  ASSERT_NE(account, "");
  EXPECT_TRUE(contains(run.out, account));
  for (const char* part : {"3406.81 M parameters", "13627238400", "27254476812", "optimizer state",
                           "activations", "Does not fit: the predicted peak of",
                           "above the budget of 24.0 GiB", "computed again", "grows as C^"})
    EXPECT_TRUE(contains(account, part)) << part << account;
}

TEST(MemoryCommand, OfAModelStandsBesideWhatAStepTook) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(
      tiny_model_memory({"--measure", "--scenario", "forward,full-step", "--output", "more.csv"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Csv csv = parse_csv(read_text(sandbox / "more.csv"));
  ASSERT_EQ(csv.rows.size(), 4u);
  for (const auto& row : csv.rows) {
    EXPECT_EQ(row.at("predicted_peak_bytes"), row.at("peak_bytes"));
    EXPECT_EQ(row.at("fits"), "True");
  }
  EXPECT_TRUE(contains(run.out, "(+0.00 %)")) << run.out;
}

TEST(MemoryCommand, OfAModelAsRecordsSaysWhatWouldNotFit) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(
      tiny_model_memory({"--memory-budget", "20KiB", "--dry-run", "--output", "more.jsonl"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_FALSE(std::filesystem::exists(sandbox / "results"));
  const ReadResult results = read_results(sandbox / "more.jsonl");
  EXPECT_TRUE(results.problems.empty());
  ASSERT_EQ(results.records.size(), 2u);
  for (const Record& record : results.records) {
    EXPECT_EQ(record.study, "memory");
    EXPECT_EQ(record.status, Status::oom);
    EXPECT_TRUE(contains(record.error, "above the budget of 20.0 KiB")) << record.error;
    int64_t sum = 0;
    for (const auto& [name, bytes] : record.metrics.value()["at_peak"].items())
      sum += bytes.get<int64_t>();
    EXPECT_EQ(Bytes{sum}, record.memory.predicted_peak);
  }
}

TEST(MemoryCommand, FlagsOfModelsAndOfAttentionDoNotMix) {
  const Sandbox sandbox;
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"--context-length", "512"}, "--model-size"},
      {{"--measure"}, "--model-size"},
      {{"--model-size", "small", "--seq-len", "16"}, "--seq-len"},
      {{"--model-size", "small", "--dtype", "bf16"}, "--dtype"},
      {{"--model-size", "tiny"}, "'tiny'"},
      {{"--model-size", "small", "--heads", "7"}, "7 heads"},
      {{"--model-size", "small", "--output", "x.png"}, ".csv"}};
  for (const auto& [more, message] : cases) {
    const Finished run = sandbox.run(Arguments{"memory", "--device", "cpu"} + more);
    EXPECT_EQ(run.exit_code, 2) << message;
    EXPECT_TRUE(contains(run.err, message)) << run.err;
  }
  EXPECT_TRUE(sandbox.is_empty());
}

TEST(MemoryCommand, TimelinesAreRowsWithEventsASnapshotAndAPlaceInTheReport) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(tiny_model_memory({"--timeline", "--measure"}));
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const std::filesystem::path folder = sandbox / "results/memory";
  const Csv csv = parse_csv(read_text(folder / "memory.csv"));
  ASSERT_EQ(csv.rows.size(), 4u) << "forward and full step, vanilla and compiled";
  for (const auto& row : csv.rows) {
    EXPECT_EQ(row.at("predicted_peak_bytes"), row.at("peak_bytes"));
    EXPECT_EQ(row.at("status"), "success");
    EXPECT_TRUE(std::filesystem::exists(sandbox / row.at("timeline_csv")));
    EXPECT_TRUE(read_text(sandbox / row.at("snapshot")).starts_with("\x80\x02")) << "a pickle";
  }
  for (const char* part : {"Memory over a step", "forward measured", "full-step measured",
                           "The largest tensors", "What lives at the peak", "memory_viz"})
    EXPECT_TRUE(contains(run.out, part)) << part << run.out;
  const Finished report = sandbox.run({"report", "-o", "report.html"});
  EXPECT_EQ(report.exit_code, 0) << report.err;
  EXPECT_TRUE(contains(read_text(sandbox / "report.html"), "measured by the ledger"));
}

TEST(MemoryCommand, TimelinesOfTheLargeModelArePredictedAnywhere) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(Arguments{"memory", "--timeline", "--device", "cpu"} +
                  Arguments{"--model-size", "2.7B", "--context-length", "128,512"} +
                  Arguments{"--precision", "fp32,mixed", "--impl", "vanilla"} +
                  Arguments{"--scenario", "forward", "--layers", "4"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  const Csv csv = parse_csv(read_text(sandbox / "results/memory/memory.csv"));
  ASSERT_EQ(csv.rows.size(), 4u);
  for (const auto& row : csv.rows) EXPECT_EQ(row.at("peak_bytes"), "") << "nothing ran";
  EXPECT_TRUE(contains(run.out, "Mixed precision, forward of ")) << run.out;
  EXPECT_TRUE(contains(run.out, "4 of 4 rows are predicted alone")) << run.out;
}

TEST(MemoryCommand, ASnapshotOnAFullDiskIsALineAndTheRestGoesOn) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run({"memory", "--timeline", "--device", "cpu", "--seq-len", "32", "--d-model", "8",
                   "--scenario", "fwd-bwd", "--impl", "vanilla", "--snapshot", "/dev/full"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "no snapshot: ")) << run.out;
  EXPECT_TRUE(contains(run.out, "No space left on device")) << run.out;
  EXPECT_TRUE(contains(run.out, "(+0.00 %)")) << run.out;
  EXPECT_EQ(parse_csv(read_text(sandbox / "results/memory/memory.csv")).rows.size(), 1u);
}

TEST(MemoryCommand, TimelinesThatCannotBeAreRefusedBeforeTheWork) {
  const Sandbox sandbox;
  const Arguments one_row = {"--timeline", "--scenario", "forward", "--impl", "vanilla"};
  const std::vector<std::pair<Arguments, std::string>> cases = {
      {{"--snapshot", "x.pickle"}, "--timeline"},
      {{"--timeline", "--snapshot", "x.pickle"}, "4 rows would write their snapshot"},
      {one_row + Arguments{"--snapshot", "no/such/x.pickle"}, "no/such"},
      {one_row + Arguments{"--snapshot", "x.csv", "-o", "x.csv"}, "--snapshot"},
      {{"--timeline", "--scenario", "full-step"}, "no full-step"},
      {{"--impl", "vanilla"}, "--impl needs --model-size, --model-config or --timeline"},
      {{"--output", "x.csv"}, "--output needs --model-size, --model-config or --timeline"}};
  for (const auto& [more, message] : cases) {
    const Finished run = sandbox.run(Arguments{"memory", "--device", "cpu"} + more);
    EXPECT_EQ(run.exit_code, 2) << message << run.err;
    EXPECT_TRUE(contains(run.err, message)) << message << ": " << run.err;
  }
  EXPECT_TRUE(sandbox.is_empty());
  const Finished planned = sandbox.run(tiny_model_memory({"--timeline", "--dry-run"}));
  EXPECT_EQ(planned.exit_code, 0) << planned.err;
  EXPECT_TRUE(contains(planned.out, "4 rows would run")) << planned.out;
  EXPECT_TRUE(sandbox.is_empty());
}

TEST(MemoryCommand, AFullDiskIsExit4) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"memory", "--seq-len", "64", "--d-model", "8"},
                                   {.limits = {{RLIMIT_FSIZE, 1000}}});
  EXPECT_EQ(run.exit_code, 4) << run.err << " signal " << run.signal;
  EXPECT_TRUE(contains(run.err, "memory_analysis_d8_s64.txt")) << run.err;
  EXPECT_TRUE(std::filesystem::is_empty(sandbox / "results/attention")) << "half a file";
}

TEST(DoctorCommand, SaysWhatWasFoundAndWritesNothing) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"doctor", "--memory-budget", "3GiB", "--threads", "1"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* part : {"processor", "memory budget", "3.00 GiB", "1 thread", "CUDA"})
    EXPECT_TRUE(contains(run.out, part)) << part << '\n' << run.out;
  EXPECT_TRUE(sandbox.is_empty());
}

std::string cuda_part(const std::string& out) {
  const size_t at = out.find("CUDA device");
  return at == std::string::npos ? "" : out.substr(at);
}

TEST(DoctorCommand, WithoutCudaSaysWhatIsMissingAndHowToGetIt) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run({"doctor"}, {.environment = {{"RIDGELINE_CUDA_LIBRARIES", "none"}}});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* part : {"NVIDIA driver         not found", "libnvrtc              not found",
                           "libcublasLt           not found", "libnvidia-ml          not found",
                           "pip install nvidia-cuda-nvrtc", "pip install nvidia-cublas",
                           "--device cuda cannot run here: no NVIDIA driver"})
    EXPECT_TRUE(contains(cuda_part(run.out), part)) << part << '\n' << run.out;
}

TEST(DoctorCommand, ADriverThatFindsNoGpuIsNamedWithItsError) {
  const Sandbox sandbox;
  const TempDir libraries;
  std::filesystem::copy_file(FAKE_DRIVER, libraries / "libcuda.so.1");
  const Finished run =
      sandbox.run({"doctor"}, {.environment = {{"RIDGELINE_CUDA_LIBRARIES", libraries.path()}}});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* part : {"CUDA 12.8", "CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES",
                           "--device cuda cannot run here: no GPU answers"})
    EXPECT_TRUE(contains(cuda_part(run.out), part)) << part << '\n' << run.out;
}

TEST(DoctorCommand, NamesTheKernelCacheAndLeavesItAlone) {
  const Sandbox sandbox;
  const std::string cache = sandbox / "cache";
  const auto doctor = [&] {
    return sandbox.run({"doctor"}, {.environment = {{"RIDGELINE_CACHE_DIR", cache}}}).out;
  };
  EXPECT_TRUE(contains(doctor(), cache + ", 0 B used")) << doctor();
  EXPECT_TRUE(sandbox.is_empty());
  write_text(sandbox / "cache/one.kernel", std::string(2048, 'x'));
  EXPECT_TRUE(contains(doctor(), cache + ", 2.00 KiB used")) << doctor();
}

// So little memory and time that nothing but the smallest flash row runs.
// Counts the rows of all studies, from the first to the last.
void expect_one_progress_line(const Finished& run, size_t rows) {
  const std::string of_all = "/" + std::to_string(rows) + "] ";
  std::string last;
  int lines = 0;
  for (size_t at = run.err.find("\r\x1b[K["); at != std::string::npos;
       at = run.err.find("\r\x1b[K[", at + 1)) {
    const std::string line = run.err.substr(at + 4, 100);
    EXPECT_TRUE(contains(line.substr(0, 12), of_all)) << line;
    last = line;
    ++lines;
  }
  EXPECT_GE(lines, static_cast<int>(rows));
  EXPECT_TRUE(last.starts_with("[" + std::to_string(rows) + of_all)) << last;
}

// One test for all that is asked of a whole study, which takes half a minute.
TEST(StudyCommand, RunsTheWholeStudyIntoAFolderOfItsOwn) {
  const Sandbox sandbox;
  const Arguments study = {"study", "--threads", "1", "--memory-budget", "2MiB", "-w",
                           "1",     "-r",        "2"};
  const RunOptions watched{.environment = {{"TERM", "xterm"}, {"COLUMNS", "100"}},
                           .stderr_is_terminal = true};
  const Finished run = sandbox.run(
      study + Arguments{"--save-baseline", "first", "--json", "all.json", "-o", "more.md"},
      watched);
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto path = sandbox / "results/study/attention.jsonl";
  const ReadResult results = read_results(path);
  EXPECT_TRUE(results.problems.empty());
  expect_each_once(results.records, 21);
  // The command of a row must meet the same budget, or an out-of-memory row is not reproduced.
  for (const Record& record : results.records)
    ASSERT_TRUE(contains(record.command, "--memory-budget 2097152")) << record.command;
  EXPECT_TRUE(contains(run.out, "Smallest out-of-memory configuration")) << run.out;
  EXPECT_TRUE(contains(run.out, "What this shows:")) << run.out;
  const std::string page = read_text(sandbox / "results/study/report.html");
  size_t rows = results.records.size();
  for (const std::string name :
       {"roofline", "gemm", "kernel", "model", "frontier", "profile", "precision", "memory", "cost",
        "comm", "decode", "generate", "ddp"}) {
    const auto records = read_results(sandbox / "results/study" / name / (name + ".jsonl")).records;
    ASSERT_FALSE(records.empty()) << name;
    for (const Record& record : records) EXPECT_EQ(record.study, name);
    EXPECT_TRUE(contains(page, "ridgeline " + name)) << "the command of a row";
    rows += records.size();
  }
  expect_one_progress_line(run, rows);
  EXPECT_EQ(Json::parse(read_text(sandbox / "all.json")).size(), rows);
  EXPECT_TRUE(contains(read_text(sandbox / "more.md"), "#")) << "a further report";
  for (const Record& record : read_results(sandbox / "results/study/kernel/kernel.jsonl").records) {
    if (record.status != Status::ok) continue;  // for the budget
    EXPECT_EQ(record.protocol.iterations, 2);
    EXPECT_TRUE(contains(record.command, "--num-warmup 1 ")) << record.command;
  }
  const Finished history = sandbox.run({"history", "--baseline", "first"});
  for (const char* name : {"attention", "gemm", "roofline"})
    EXPECT_TRUE(contains(history.out, name)) << history.out;

  const std::string before = read_text(path);
  EXPECT_EQ(sandbox.run(study + Arguments{"--resume"}).exit_code, 0);
  EXPECT_EQ(read_text(path), before);
}

TEST(StudyCommand, SeveralRunsOfEachStudyAreFreshProcesses) {
  const Sandbox sandbox;
  for (const std::string file : {"gemm/gemm.jsonl", "attention.jsonl"}) {
    const std::string name = std::filesystem::path(file).stem();
    const Finished run = sandbox.run({"study", "--threads", "1", "--memory-budget", "2MiB",
                                      "--time-budget", "1ms", "--only", name, "--runs", "2"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    const std::vector<Record> records = read_results(sandbox / "results/study" / file).records;
    ASSERT_FALSE(records.empty()) << name;
    std::map<std::string, std::vector<int>> runs;
    for (const Record& record : records) {
      EXPECT_EQ(record.study, name);
      runs[workload_key(record)].push_back(record.run);
    }
    for (const auto& [row, numbers] : runs) EXPECT_EQ(numbers, (std::vector{1, 2})) << row;
  }
  EXPECT_FALSE(std::filesystem::exists(sandbox / "results/study/kernel"));
  EXPECT_EQ(sandbox.run({"study", "--runs", "2", "--resume"}).exit_code, 2);
}

TEST(StudyCommand, RowsOfAnEarlierRunDoNotStandForAStudyThatIsLeftOut) {
  const Sandbox sandbox;
  const Arguments study = {"study", "--threads", "1", "--only", "cost"};
  ASSERT_EQ(sandbox.run(study).exit_code, 0);
  const auto table = sandbox / "results/study/cost/cost.csv";
  std::filesystem::remove(table);
  std::filesystem::create_directory(table);
  const Finished run =
      sandbox.run(study + Arguments{"--json", "all.json", "--save-baseline", "later"});
  EXPECT_NE(run.exit_code, 0);
  EXPECT_TRUE(contains(run.err, "cost was left out")) << run.err;
  EXPECT_FALSE(contains(run.out, "What it comes to")) << run.out;
  EXPECT_FALSE(std::filesystem::exists(sandbox / "all.json"));
  EXPECT_FALSE(std::filesystem::exists(sandbox / "results/history.sqlite"));
}

TEST(StudyCommand, DryRunShowsEveryStudyAndRunsNone) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"study", "--device", "cpu", "--dry-run"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  for (const char* part :
       {"ridgeline roofline", "ridgeline gemm", "ridgeline kernel", "ridgeline model",
        "ridgeline frontier", "ridgeline memory", "ridgeline decode --layer",
        "ridgeline generate --model-config 270m", "21 rows would run", "compiled S=16384"})
    EXPECT_TRUE(contains(run.out, part)) << part;
  EXPECT_TRUE(sandbox.is_empty());
}

TEST(StudyCommand, TheCommandsItPrintsCanBePasted) {
  const Sandbox sandbox;
  const std::string out =
      sandbox.run({"study", "--device", "cpu", "--threads", "1", "--dry-run"}).out;
  int commands = 0;
  for (size_t at = out.find("== ridgeline "); at != std::string::npos;
       at = out.find("== ridgeline ", at + 1)) {
    const size_t begin = out.find(' ', at + 3) + 1, end = out.find('\n', at);
    std::istringstream line(out.substr(begin, end - begin));
    Arguments words;
    for (std::string word; line >> word;) words.push_back(word);
    const Finished pasted = sandbox.run(words);
    EXPECT_EQ(pasted.exit_code, 0) << line.str() << pasted.err;
    EXPECT_TRUE(contains(out.substr(end), pasted.out)) << line.str() << '\n' << pasted.out;
    ++commands;
  }
  EXPECT_EQ(commands, 14);
}

TEST(StudyCommand, TheModelIsAsSmallAsTheBudgetAsks) {
  const Sandbox sandbox;
  const auto dry_run = [&](const char* budget) {
    return sandbox.run({"study", "--device", "cpu", "--dry-run", "--memory-budget", budget}).out;
  };
  const auto model_rows = [](const std::string& out) {
    const size_t begin = out.find("== ridgeline model");
    return out.substr(begin, out.find("==", begin + 2) - begin);
  };
  const std::string usual = dry_run("8GiB"), small = dry_run("1GiB"), none = dry_run("2MiB");
  EXPECT_FALSE(contains(usual, "smaller model")) << usual;
  EXPECT_TRUE(contains(model_rows(usual), "small context=128")) << usual;
  EXPECT_TRUE(contains(small, "A smaller model than usual")) << small;
  for (const std::string& out : {usual, small}) {
    EXPECT_TRUE(contains(model_rows(out), " yes")) << model_rows(out);
    EXPECT_FALSE(contains(model_rows(out), " no")) << model_rows(out);
    EXPECT_TRUE(contains(out, "--dtype fp32,bf16")) << "the kernel study's dtype has a ceiling";
  }
  EXPECT_TRUE(contains(none, "Not even the smallest model fits")) << none;
}

TEST(StudyCommand, ABadNameForABaselineIsToldBeforeTheWork) {
  const Sandbox sandbox;
  EXPECT_EQ(sandbox.run({"study", "--save-baseline", "two\nlines"}).exit_code, 2);
  EXPECT_TRUE(sandbox.is_empty());
}

}  // namespace
}  // namespace ridgeline
