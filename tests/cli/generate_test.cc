// ridgeline generate as a user runs it, on a tiny model.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/file_io.h"
#include "cli/peers.h"
#include "cli/run_ridgeline.h"
#include "measure/record_values.h"

namespace ridgeline {
namespace {

constexpr const char* kTinyConfig = R"({"model_type": "gemma3_text", "vocab_size": 320,
    "hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "num_key_value_heads": 1,
    "head_dim": 16, "num_hidden_layers": 2, "sliding_window": 8, "max_position_embeddings": 128})";

Arguments tiny_generate(const Arguments& more) {
  return Arguments{"generate", "--model-config", "tiny.json", "--random-weights", "--dtype",
                   "fp32",     "--device",       "cpu",       "--threads",        "1"} +
         more;
}

TEST(GenerateCommand, StreamsTokensAndWritesARowPerImplementation) {
  const Sandbox sandbox;
  write_file_atomically(sandbox / "tiny.json", kTinyConfig);
  const Arguments more = {"--prompt-ids", "2,17,9", "--max-new-tokens", "6", "--impl"};
  const Finished run = sandbox.run(tiny_generate(more + Arguments{"vanilla,flash"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto records = read_results(sandbox / "results/generate/generate.jsonl").records;
  ASSERT_EQ(records.size(), 2u);
  std::string tokens;
  for (const Json& id : *records[0].metrics->find_key("tokens"))
    tokens += (tokens.empty() ? "" : ",") + std::to_string(id.get<int>());
  EXPECT_TRUE(run.out.starts_with(tokens + "\n\n" + tokens + "\n\n")) << run.out;
  EXPECT_TRUE(contains(records[1].command, "--prompt-ids 2,17,9 ")) << records[1].command;
  EXPECT_TRUE(contains(read_text(sandbox / "results/generate/generate.csv"),
                       "time_to_first_token_ms,prefill_ms,prefill_tokens_per_s"));
  const Finished again =
      sandbox.run(tiny_generate(more + Arguments{"vanilla", "--resume", "-o", "table.md"}));
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_TRUE(contains(again.err, "1 of 1 rows are kept")) << again.err;
  const Finished report = sandbox.run({"report", "results/generate", "-o", "report.md"});
  EXPECT_EQ(report.exit_code, 0) << report.err;
  EXPECT_TRUE(contains(read_text(sandbox / "report.md"), "Text, token by token"));
}

TEST(GenerateCommand, ATokenMayOccurInAPromptAgain) {
  const Sandbox sandbox;
  write_file_atomically(sandbox / "tiny.json", kTinyConfig);
  const Finished run = sandbox.run(
      tiny_generate({"--prompt-ids", "2,17,17,2", "--max-new-tokens", "2", "--impl", "vanilla"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const auto records = read_results(sandbox / "results/generate/generate.jsonl").records;
  ASSERT_EQ(records.size(), 1u);
  EXPECT_TRUE(contains(records[0].command, "--prompt-ids 2,17,17,2 ")) << records[0].command;
}

TEST(GenerateCommand, TheProgressLineIsGoneBeforeTextIsPrinted) {
  const Sandbox sandbox;
  write_file_atomically(sandbox / "tiny.json", kTinyConfig);
  const Finished run = sandbox.run(
      tiny_generate({"--prompt-ids", "2", "--max-new-tokens", "2", "--impl", "vanilla"}),
      {.environment = {{"TERM", "xterm"}}, .stderr_is_terminal = true});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, ": prompt, ")) << run.err;
  EXPECT_TRUE(run.err.ends_with("\r\x1b[K")) << run.err;
}

TEST(GenerateCommand, ALongContextRunsInTheMemoryThatMemoryPredicts) {
  const Sandbox sandbox;
  std::string config = kTinyConfig;
  config.replace(config.find("128}"), 3, "32768");
  write_file_atomically(sandbox / "long.json", config);
  const Arguments of = {"--model-config", "long.json", "--dtype", "fp32", "--device", "cpu"};
  const Finished account = sandbox.run(
      Arguments{"memory"} + of +
      Arguments{"--context-length", "32768", "--prompt-length", "32760", "-o", "m.csv"});
  ASSERT_EQ(account.exit_code, 0) << account.err;
  EXPECT_TRUE(contains(account.out, "is 32768 tokens: all positions")) << account.out;
  const Finished run =
      sandbox.run(Arguments{"generate"} + of +
                  Arguments{"--random-weights", "--prompt-length", "32760", "--capacity", "32768",
                            "--max-new-tokens", "8", "-w", "0", "-r", "1"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Record record = read_results(sandbox / "results/generate/generate.jsonl").records[0];
  ASSERT_EQ(record.status, Status::ok) << record.error;
  EXPECT_EQ(record.memory.peak, record.memory.predicted_peak);
  EXPECT_TRUE(contains(read_text(sandbox / "m.csv"),
                       fmt::format(",{},", record.memory.predicted_peak->count)));
  const Finished beyond =
      sandbox.run(Arguments{"memory"} + of + Arguments{"--context-length", "32769"});
  EXPECT_EQ(beyond.exit_code, 2);
  EXPECT_TRUE(contains(beyond.err, "32768 positions")) << beyond.err;
}

TEST(GenerateCommand, OtherLibrariesStandInTheSameTableAndTheirTokensAreHeldAgainstOurs) {
  REQUIRE_PYTHON();
  const Sandbox sandbox;
  write_file_atomically(sandbox / "tiny.json", kTinyConfig);
  const Finished run = sandbox.run(
      tiny_generate({"--prompt-ids", "2,17,9", "--max-new-tokens", "4", "--batch-size", "2",
                     "--impl", "transformers.eager,transformers.graph,llama.cpp,vanilla"}),
      with_fake_peers());
  const ReadResult results = read_results(sandbox / "results/generate/generate.jsonl");
  ASSERT_EQ(results.records.size(), 4u) << run.err;
  EXPECT_EQ(results.records[0].implementation, "vanilla") << "ours come first";
  const Record& peer = *find(results, "transformers.eager");
  ASSERT_EQ(peer.status, Status::ok) << peer.error;
  EXPECT_EQ(*metric_of(peer, "decode", "tokens_per_s"), 2 / 0.004);
  EXPECT_EQ(*metric_of(peer, "prefill", "tokens_per_s"), 2 * 3 / 0.002);
  EXPECT_EQ(text_of(*peer.metrics, "equal_tokens"), "0");
  EXPECT_EQ((*peer.metrics)["peer"]["prompt"].dump(), "[2,17,9]");
  EXPECT_TRUE(contains(run.out, "transformers.eager, batch 2: 0 of 4 tokens are ours")) << run.out;
  EXPECT_EQ(find(results, "transformers.graph")->status, Status::unsupported);
  EXPECT_EQ(find(results, "llama.cpp")->status, Status::invalid) << "a token that is none";
  const Finished drawn = sandbox.run(
      tiny_generate({"--prompt-ids", "2", "--impl", "llama.cpp", "--temperature", "1"}));
  EXPECT_EQ(drawn.exit_code, 2);
  EXPECT_TRUE(contains(drawn.err, "decodes greedily")) << drawn.err;
}

TEST(GenerateCommand, BadUsageAndTooLittleMemoryAreErrorsBeforeAnythingRuns) {
  const Sandbox sandbox;
  write_file_atomically(sandbox / "tiny.json", kTinyConfig);
  for (const auto& [bad, part] :
       {std::pair<Arguments, std::string>{{}, "no prompt"},
        {{"--prompt", "hello"}, "needs a tokenizer"},
        {{"--prompt-ids", "2,320"}, "token 320"},
        {{"--prompt-ids", "2", "--max-new-tokens", "128"}, "128 positions"},
        {{"--prompt-ids", "2", "--top-k", "5"}, "--top-k"},
        {{"--prompt-ids", "2", "--impl", "fast"}, "'fast'"}}) {
    const Finished run = sandbox.run(tiny_generate(bad));
    EXPECT_EQ(run.exit_code, 2) << part;
    EXPECT_TRUE(contains(run.err, part)) << run.err;
  }
  const Finished run =
      sandbox.run(tiny_generate({"--prompt-ids", "2", "--memory-budget", "20KiB"}));
  EXPECT_NE(run.exit_code, 0);
  EXPECT_TRUE(contains(run.err, "the predicted peak of")) << run.err;
  EXPECT_FALSE(std::filesystem::exists(sandbox / "results"));
}

}  // namespace
}  // namespace ridgeline
