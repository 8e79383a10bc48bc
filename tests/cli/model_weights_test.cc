// ridgeline model with files of weights and with clipping, as a user runs it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "cli/run_ridgeline.h"
#include "measure/record_json.h"
#include "models/safetensors.h"

namespace ridgeline {
namespace {

Arguments model_of_weights(const Arguments& more, const std::string& d_ff = "24") {
  return Arguments{"model", "--device", "cpu", "--threads", "1"} +
         Arguments{"--d-model", "16", "--d-ff", d_ff, "--layers", "1", "--heads", "2"} +
         Arguments{"--vocabulary", "40", "--batch-size", "2", "--context-length", "8"} +
         Arguments{"--warmup-steps", "1", "--measure-steps", "3"} + more;
}

const Arguments kSave = {"--mode", "vanilla", "--save-weights", "new/w.safetensors"};

Record first_record(const Sandbox& sandbox) {
  return read_results(sandbox / "results/model/model.jsonl").records.at(0);
}

TEST(ModelWeights, AreSavedAndTakenUpAgain) {
  const Sandbox sandbox;
  const Finished saved = sandbox.run(model_of_weights(kSave));
  ASSERT_EQ(saved.exit_code, 0) << saved.err;
  EXPECT_TRUE(contains(saved.out, "Weights: new/w.safetensors")) << saved.out;
  const Record before = first_record(sandbox);
  const Finished run = sandbox.run(model_of_weights({"--weights", "new/w.safetensors"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Record after = first_record(sandbox);
  EXPECT_LT(after.metrics.value()["full_step"]["loss"].get<double>(),
            before.metrics.value()["full_step"]["loss"].get<double>());
  EXPECT_TRUE(contains(after.command, " --weights new/w.safetensors")) << after.command;
  EXPECT_NE(workload_key(after), workload_key(before));
}

TEST(ModelWeights, ThoseThatAreNanAreWrongAndNotSaved) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(model_of_weights(kSave)).exit_code, 0);
  const std::string file = read_text(sandbox / "new/w.safetensors");
  uint64_t header = 0;  // its length stands first
  std::memcpy(&header, file.data(), sizeof header);
  const size_t begin = sizeof header + header;
  write_text(sandbox / "nan", file.substr(0, begin) + std::string(file.size() - begin, '\xff'));
  const Finished run = sandbox.run(
      model_of_weights({"--weights", "nan", "--mode", "vanilla", "--save-weights", "out"}));
  EXPECT_EQ(run.exit_code, 3) << run.err;
  EXPECT_TRUE(contains(run.out, "forward.loss is not finite")) << run.out;
  EXPECT_TRUE(contains(run.out, "Weights: not written")) << run.out;
  EXPECT_FALSE(std::filesystem::exists(sandbox / "out"));
}

TEST(ModelWeights, LogitsAreWrittenBesideTheirTokens) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(model_of_weights(
      {"--mode", "compiled", "--scenario", "forward", "--save-logits", "new/l.safetensors"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.out, "Logits: new/l.safetensors")) << run.out;
  const SafetensorsFile file(sandbox / "new/l.safetensors");
  EXPECT_EQ(file.find("logits").shape, (std::vector<int64_t>{2, 8, 40}));
  const std::vector<float> tokens = file.read_floats(file.find("tokens"));
  ASSERT_EQ(tokens.size(), 16u);
  EXPECT_TRUE(std::ranges::all_of(tokens, [](float t) { return t >= 0 && t < 40; }));
  const std::vector<float> logits = file.read_floats(file.find("logits"));
  EXPECT_TRUE(std::ranges::any_of(logits, [](float x) { return x != 0; }));
}

// More room than the records need, less than the weights do.
TEST(ModelWeights, ALimitOnFilesIsAnErrorAndNotTheEnd) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(model_of_weights(kSave, "4096"), {.limits = {{RLIMIT_FSIZE, 200'000}}});
  EXPECT_EQ(run.exit_code, 4) << run.err;
  EXPECT_TRUE(contains(run.err, "cannot write 'new/w.safetensors'")) << run.err;
  EXPECT_TRUE(std::filesystem::is_empty(sandbox / "new"));
}

TEST(ModelWeights, ClippingStandsInTheRowAndItsCommand) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(model_of_weights({"--max-norm", "0.5", "--scenario", "full-step"}));
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const Record record = first_record(sandbox);
  EXPECT_TRUE(contains(record.command, " --max-norm 0.5")) << record.command;
  EXPECT_EQ(record.settings["max_norm"], 0.5);
}

// All of it before anything is run.
TEST(ModelWeights, WhatCannotBeIsAUsageErrorThatSaysWhy) {
  const Sandbox sandbox;
  ASSERT_EQ(sandbox.run(model_of_weights(kSave + Arguments{"--scenario", "full-step"})).exit_code,
            0);
  std::filesystem::remove_all(sandbox / "results");
  struct Case {
    Arguments arguments;
    const char* part;
  };
  const Arguments load = {"--weights", "new/w.safetensors"};
  const Case cases[] = {
      {model_of_weights({"--weights", "missing"}), "cannot read 'missing'"},
      {model_of_weights({"--weights", "new"}), "cannot read 'new/model.safetensors'"},
      {model_of_weights(load, "32"), "'layers.0.ffn.w1.weight' as [24, 16], expected [32, 16]"},
      {model_of_weights({"--save-weights", "w"}),
       "2 rows would write their weights to 'w', from 'custom context=8 batch=2 fp32, vanilla'"},
      {model_of_weights(kSave + Arguments{"--scenario", "forward,fwd-bwd"}),
       "--save-weights is about training, but --scenario forward,fwd-bwd takes no full step"},
      {model_of_weights({"--mode", "vanilla", "--save-weights", "new"}), "cannot write 'new'"},
      {model_of_weights(kSave + Arguments{"--resume"}), "--save-weights excludes --resume"},
      {model_of_weights({"--save-logits", "l"}), "2 rows would write their logits to 'l'"},
      {model_of_weights({"--mode", "vanilla", "--scenario", "full-step", "--save-logits", "l"}),
       "--save-logits is about forward, but --scenario full-step has none"},
      {model_of_weights({"--max-norm", "1", "--scenario", "forward"}),
       "--max-norm is about training"},
      {model_of_weights({"--max-norm", "0"}), "'0' is not a number above 0"},
      {model_of_weights({"--max-norm", "nan"}), "'nan' is not a number above 0"},
  };
  for (const Case& wrong : cases) {
    const Finished run = sandbox.run(wrong.arguments);
    EXPECT_EQ(run.exit_code, 2) << wrong.part;
    EXPECT_TRUE(contains(run.err, wrong.part)) << run.err << "expected: " << wrong.part;
    EXPECT_FALSE(std::filesystem::exists(sandbox / "results")) << wrong.part;
  }
}

}  // namespace
}  // namespace ridgeline
