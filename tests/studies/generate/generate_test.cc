// Texts of a tiny Gemma-3 by generate, against logits of whole sequences.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "base/error.h"
#include "base/file_io.h"
#include "base/temporary.h"
#include "measure/record_values.h"
#include "models/gemma3_run.h"
#include "models/transformer_inputs.h"
#include "runtime/cpu_device.h"
#include "studies/generate/row.h"
#include "studies/generate/tables.h"
#include "support/expect.h"
#include "support/gpu.h"
#include "text/model_file.h"

namespace ridgeline::generate_study_test {
namespace {

using testing::tiny_gemma;

constexpr uint64_t kSeed = 3;
const std::vector<int32_t> kPrompt = {2, 17, 9, 30, 4, 4, 11};  // longer than the windows of 5
constexpr int64_t kNew = 12;

GenerateJob tiny_job(const SamplingRules& rules = {}) {
  GenerateJob job{.config = tiny_gemma(), .model = "tiny"};
  job.prompt = kPrompt;
  job.max_new_tokens = kNew;
  job.capacity = 32;
  job.dtype = DType::f32;
  job.rules = rules;
  return job;
}

GenerateOptions quick() {
  return {.row = {.protocol = {.warmups = 1, .min_warmup_s = 0, .iterations = 2}, .seed = kSeed}};
}

Record generated(const GenerateJob& job, Mode mode, Device& device,
                 GenerateOptions options = quick()) {
  GenerateStudy study(job, device, std::move(options));
  const GenerateRow row{mode, job.batch_sizes[0]};
  return study.run(row, study.describe(row, {})).value();
}

std::vector<int32_t> tokens_of(const Record& record) {
  EXPECT_EQ(record.status, Status::ok) << record.error;
  return record.metrics->find_key("tokens")->get<std::vector<int32_t>>();
}

// The likeliest token after each prefix, by a graph of the whole sequence without a cache.
std::vector<int32_t> teacher_forced(const GenerateJob& job, Device& device) {
  testing::GemmaWeights weights;
  for (const Parameter& parameter : gemma3_parameters(job.config)) {
    const std::vector<float> values = beginning_of(parameter, kSeed);
    weights[parameter.name].assign(values.begin(), values.end());
  }
  std::vector<int> text(job.prompt.begin(), job.prompt.end());
  std::vector<int32_t> added;
  for (int64_t i = 0; i < job.max_new_tokens; ++i) {
    const auto count = static_cast<int64_t>(text.size());
    const Graph graph = testing::gemma3_graph(
        job.config, {.tokens = count, .dtype = DType::f32, .last_only = true});
    const auto logits =
        testing::run_eager(graph, testing::gemma_inputs(job.config, weights, text, count), device)
            .at("logits");
    added.push_back(static_cast<int32_t>(std::ranges::max_element(logits) - logits.begin()));
    text.push_back(added.back());
  }
  return added;
}

void expect_greedy_tokens(Device& device) {
  const GenerateJob job = tiny_job();
  const auto cpu = testing::cpu();
  const std::vector<int32_t> expected = teacher_forced(job, *cpu);
  for (const ModeInfo& mode : modes())
    EXPECT_EQ(tokens_of(generated(job, mode.mode, device)), expected) << mode.name;
}

TEST(Generate, GreedyTokensAreThoseOfWholeSequences) {
  const auto device = testing::cpu();
  expect_greedy_tokens(*device);
}

TEST(Generate, GreedyTokensAreThoseOfWholeSequencesOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  expect_greedy_tokens(*testing::gpu());
}

// Prompts of the same length that have nothing else in common.
void expect_texts_of_a_batch(Device& device, Mode mode) {
  const GenerateJob job = tiny_job();
  const std::vector<std::vector<int32_t>> prompts = {
      kPrompt, {5, 5, 8, 1, 29, 13, 2}, {30, 4, 0, 7, 7, 21, 16}};
  const auto texts_of = [&](std::span<const std::vector<int32_t>> side_by_side) {
    Generator generator(job.config, device,
                        {.batch_size = static_cast<int64_t>(side_by_side.size()),
                         .prompt = static_cast<int64_t>(kPrompt.size()),
                         .capacity = job.capacity,
                         .dtype = DType::f32,
                         .mode = mode});
    generator.prepare();
    generator.load(nullptr, kSeed);
    std::vector<int32_t> ids;
    for (const auto& prompt : side_by_side) ids.insert(ids.end(), prompt.begin(), prompt.end());
    generator.set_prompt(ids);
    generator.prefill();
    generator.begin_decoding(generator.first_tokens(), 1);
    generator.greedy_steps(kNew / 2);
    generator.greedy_steps(kNew / 2);
    return generator.greedy_texts();
  };
  const auto together = texts_of(prompts);
  ASSERT_EQ(together.size(), prompts.size());
  for (size_t i = 0; i < prompts.size(); ++i) {
    EXPECT_EQ(together[i], texts_of({&prompts[i], 1})[0]) << info(mode).name << " text " << i;
    EXPECT_EQ(together[i].size(), size_t{kNew + 1});
  }
  EXPECT_NE(together[0], together[1]);
}

TEST(Generate, TextsOfABatchAreThoseOfEachByItself) {
  const auto device = testing::cpu();
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) expect_texts_of_a_batch(*device, mode);
}

TEST(Generate, TextsOfABatchAreThoseOfEachByItselfOnTheGpu) {
  RIDGELINE_NEEDS_GPU();
  expect_texts_of_a_batch(*testing::gpu(), Mode::compiled);
}

TEST(Generate, TokensPerSecondAreThoseOfAllTextsTogether) {
  const auto device = testing::cpu();
  GenerateJob job = tiny_job();
  job.batch_sizes = {3};
  const Record record = generated(job, Mode::vanilla, *device);
  const double step_s = record.find_series("decode")->statistics.median_ms / 1e3;
  EXPECT_DOUBLE_EQ(*metric_of(record, "decode", "tokens_per_s"), 3 / step_s);
  const auto texts = record.metrics->find_key("texts")->get<std::vector<std::vector<int32_t>>>();
  EXPECT_EQ(texts, std::vector(3, tokens_of(record))) << "of the same prompt";
  job.rules = {.temperature = 2};
  const Record drawn = generated(job, Mode::vanilla, *device);
  const auto different = drawn.metrics->find_key("texts")->get<std::vector<std::vector<int32_t>>>();
  EXPECT_EQ(different[0], tokens_of(drawn));
  EXPECT_NE(different[0], different[1]) << "each text has draws of its own";
}

TEST(Generate, ReportsDrawTokensPerSecondOverTheBatchBelowTheRoofline) {
  const auto device = testing::cpu();
  Roofline roofline;
  roofline.compute.push_back({.dtype = "fp32", .probe = "fma", .rate = 1e12});
  roofline.memory.push_back({.level = "memory", .probe = "read", .rate = 1e12});
  GenerateOptions options = quick();
  options.roofline = &roofline;
  ReportInput input;
  for (const int64_t batch : {1, 4}) {
    GenerateJob job = tiny_job();
    job.batch_sizes = {batch};
    Record record = generated(job, Mode::vanilla, *device, options);
    EXPECT_EQ((*record.metrics)["decode"]["roof_probe"].text(), "read");
    EXPECT_LT(*metric_of(record, "decode", "roof_share"), 1) << "of 1 TB/s";
    input.records.push_back(std::move(record));
  }
  const ReportSection section = generate_section(report_context(input));
  EXPECT_TRUE(section.question.ends_with("?"));
  EXPECT_HAS(section.answer, " at 4");
  ReportInput falling = input;  // more texts side by side may be fewer tokens
  falling.records.push_back(input.records.back());
  falling.records.back().workload["batch_size"] = 16;
  for (size_t i = 0; i < 3; ++i)
    (*falling.records[i].metrics)["decode"]["tokens_per_s"] = std::array{10.0, 40.0, 20.0}[i];
  const std::string words = generate_section(report_context(falling)).answer;
  EXPECT_HAS(words, ", 40, the most, at 4");
  ASSERT_EQ(section.views.size(), 1u);
  const Chart& chart = section.views[0].charts.at(0);
  ASSERT_EQ(chart.series.size(), 2u) << "measured, and the roofline";
  EXPECT_EQ(chart.series[1].name, "roofline");
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(chart.series[0].points[i].x, i == 0 ? 1 : 4);
    EXPECT_LT(chart.series[0].points[i].y, chart.series[1].points[i].y);
  }
  EXPECT_HAS(section.certainty.why, "ceilings measured here");
  ReportInput apart = input;
  apart.records[1].workload["capacity"] = 4096;
  const std::vector<ReportView> views = generate_section(report_context(apart)).views;
  ASSERT_EQ(views.size(), 2u) << "one line over the batch has one cache";
  EXPECT_HAS(views[0].name + views[1].name, ", capacity 4096");
  for (Record& record : input.records) (*record.metrics)["decode"].erase("roof_tokens_per_s");
  EXPECT_LACKS(generate_section(report_context(input)).certainty.why, "ceilings");
  EXPECT_TRUE(generate_section(report_context(ReportInput{})).empty());
}

TEST(Generate, DrawnTokensAreReproducedByTheSeedAndOneCandidateIsGreedy) {
  const auto device = testing::cpu();
  const GenerateJob greedy = tiny_job(), one = tiny_job({.temperature = 1, .top_k = 1}),
                    drawn = tiny_job({.temperature = 2});
  EXPECT_EQ(tokens_of(generated(one, Mode::vanilla, *device)),
            tokens_of(generated(greedy, Mode::vanilla, *device)));
  const auto first = tokens_of(generated(drawn, Mode::vanilla, *device));
  EXPECT_EQ(first, tokens_of(generated(drawn, Mode::vanilla, *device)));
  EXPECT_EQ(first, tokens_of(generated(drawn, Mode::compiled, *device)));
  EXPECT_NE(first, tokens_of(generated(greedy, Mode::vanilla, *device)));
}

TEST(Generate, StopsAtATokenThatEndsTheText) {
  const auto device = testing::cpu();
  GenerateJob job = tiny_job();
  const std::vector<int32_t> whole = tokens_of(generated(job, Mode::vanilla, *device));
  const auto stop = std::ranges::find_if(whole, [&](int32_t id) { return id != whole[0]; });
  ASSERT_NE(stop, whole.end());
  job.stops = {*stop};
  const Record record = generated(job, Mode::vanilla, *device);
  EXPECT_EQ(tokens_of(record), std::vector<int32_t>(whole.begin(), stop + 1));
  EXPECT_EQ(text_of(*record.metrics, "stopped_by"), "end of text");
}

TEST(Generate, RecordsHaveTimesMemoryAndTheTextAsItWasPrinted) {
  const auto device = testing::cpu();
  const GenerateJob job = tiny_job();
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    std::string printed;
    GenerateOptions options = quick();
    options.print = [&](std::string_view text) { printed += text; };
    const Record record = generated(job, mode, *device, options);
    std::string expected;
    for (const int32_t id : tokens_of(record))
      expected += (expected.empty() ? "" : ",") + std::to_string(id);
    EXPECT_EQ(printed, expected) << "ids, as there is no tokenizer";
    EXPECT_EQ(record.find_series("prefill")->samples_ms.size(), 2u);
    EXPECT_EQ(record.find_series("first_token")->samples_ms.size(), 2u);
    EXPECT_EQ(record.find_series("decode")->samples_ms.size(), size_t{kNew - 1});
    ASSERT_TRUE(record.memory.peak && record.memory.predicted_peak);
    EXPECT_LE(record.memory.peak->count, record.memory.predicted_peak->count)
        << info(mode).name << ": weights and caches are there once";
    EXPECT_GT(static_cast<double>(record.memory.peak->count),
              0.9 * static_cast<double>(record.memory.predicted_peak->count))
        << info(mode).name;
    EXPECT_GT(metric_of(record, "decode", "tokens_per_s").value_or(0), 0);
    const Table csv = generate_csv(std::span(&record, 1));
    ASSERT_EQ(csv.rows.size(), 1u);
    EXPECT_EQ(csv.rows[0].size(), csv.columns.size());
    EXPECT_EQ(generate_summary(std::span(&record, 1)).rows[0].size(),
              generate_summary(std::span(&record, 1)).columns.size());
  }
}

TEST(Generate, AStepReadsEveryWeightAndTheTokensThatAreCached) {
  const Gemma3Config config = tiny_gemma();
  const GeneratorOptions options{.prompt = 4, .capacity = 32, .dtype = DType::f32};
  const int64_t row = 2 * config.key_heads * config.head_dim;  // of one layer and token
  // Two sliding layers of 5 tokens, two full ones.
  EXPECT_EQ(bytes_per_step(config, options, 20).count,
            4 * (parameter_count(config) + row * (5 + 20 + 5 + 20)));
  const auto device = testing::cpu();
  const Generator generator(config, *device, options);
  EXPECT_EQ(macs_per_step(config, options), generator.steps().stage_costs()[0].macs);
}

// The embedding of one token is NaN, and the second text has it.
TEST(Generate, ABrokenLogitIsNamedByItsTokenInTheText) {
  const auto device = testing::cpu();
  Gemma3Config config = tiny_gemma();
  config.tied_head = false;
  const TemporaryDirectory folder;
  save_weights(folder.path() / "model.safetensors", gemma3_parameters(config),
               [&](const Parameter& parameter) {
                 std::vector<float> values = beginning_of(parameter, kSeed);
                 if (parameter.name == "model.embed_tokens.weight")
                   std::fill_n(values.begin() + 5 * config.hidden_size, config.hidden_size, NAN);
                 return values;
               });
  const WeightFiles files(folder.path());
  Generator generator(config, *device,
                      {.batch_size = 2, .prompt = 2, .capacity = 8, .dtype = DType::f32});
  generator.prepare();
  generator.load(&files, kSeed);
  generator.set_prompt(std::vector<int32_t>{2, 3, 2, 5});
  generator.prefill();
  EXPECT_ERROR(generator.begin_decoding(generator.first_tokens(), 0), ErrorKind::wrong_result,
               "the logit of token 0 is nan, expected a number");
}

TEST(Generate, TextForATerminalHasNoControlCharacters) {
  EXPECT_EQ(for_terminal("a\tb\n\x1b[2J\x7f"), "a\tb\n?[2J?");
  EXPECT_EQ(for_terminal("a\u0080\u009bb\u009f"), "a??b?") << "C1 controls";
  EXPECT_EQ(for_terminal("\u00a0\u00e9\u20ac\u4e80"), "\u00a0\u00e9\u20ac\u4e80");
  EXPECT_EQ(for_terminal("\xc2"), "\xc2");
}

TEST(Generate, WhatDoesNotFitIsOutOfMemoryBeforeAnythingIsAllocated) {
  CpuDevice device(CpuOptions{.threads = 1, .ledger = {.budget = {20'000}}});
  const GenerateJob job = tiny_job();
  const Record record = generated(job, Mode::vanilla, device);
  EXPECT_EQ(record.status, Status::oom);
  EXPECT_HAS(record.error, "predicted");
  EXPECT_EQ(device.ledger().peak().count, 0);
}

// What flags make of a model's folder.
class GenerateJobs : public ::testing::Test {
 protected:
  GenerateJobs() {
    write("config.json", R"({"model_type": "gemma3_text", "vocab_size": 320, "hidden_size": 16,
        "intermediate_size": 24, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8,
        "num_hidden_layers": 2, "sliding_window": 8, "max_position_embeddings": 128})");
    flags_.model = folder_.path().string();
    flags_.random_weights = true;
    flags_.dtype = "fp32";
    flags_.prompt_ids = {"2", "17"};
    flags_.gave_ids = true;
  }
  void write(const std::string& name, const std::string& text) const {
    write_file_atomically(folder_.path() / name, text);
  }
  void use_text(const std::string& text) {
    flags_.prompt = text;
    flags_.gave_prompt = true;
    flags_.gave_ids = false;
  }
  std::string refusal() const {
    try {
      make_generate_job(flags_);
    } catch (const Error& error) {
      EXPECT_TRUE(error.kind() == ErrorKind::usage || error.kind() == ErrorKind::unsupported);
      return error.what();
    }
    ADD_FAILURE() << "nothing was refused";
    return {};
  }
  void expect_refusal(const std::string& part) const {
    const std::string text = refusal();
    EXPECT_HAS(text, part);
  }

  TemporaryDirectory folder_;
  GenerateFlags flags_;
};

TEST_F(GenerateJobs, CapacityIsWhatIsNeededRoundedUpAndWithinTheModel) {
  EXPECT_EQ(make_generate_job(flags_).capacity, 128);  // 2 + 64
  flags_.max_new_tokens = 62;
  EXPECT_EQ(make_generate_job(flags_).capacity, 64);
  flags_.capacity = 70;
  EXPECT_EQ(make_generate_job(flags_).capacity, 70);
  flags_.capacity = 63;
  expect_refusal("--capacity 63");
  flags_.capacity = 129;
  expect_refusal("128 positions");
  flags_.capacity = 0;
  flags_.max_new_tokens = 127;
  expect_refusal("127 new ones");
}

TEST_F(GenerateJobs, APromptOfALengthIsDrawnByTheSeedAndBeginsAsTextsDo) {
  flags_.gave_ids = false;
  flags_.prompt_length = 20;
  const std::vector<int32_t> first = make_generate_job(flags_).prompt;
  EXPECT_EQ(first.size(), 20u);
  EXPECT_EQ(first[0], 2);
  EXPECT_EQ(make_generate_job(flags_).prompt, first);
  flags_.seed = 7;
  EXPECT_NE(make_generate_job(flags_).prompt, first);
  flags_.gave_ids = true;
  expect_refusal("--prompt-ids and --prompt-length");
}

TEST_F(GenerateJobs, TextGoesThroughTheTokenizerWithBosInFront) {
  const std::vector<Piece> pieces = small_pieces();
  write("tokenizer.model", model_file(pieces));
  use_text("hello world");
  const GenerateJob job = make_generate_job(flags_);
  ASSERT_GE(job.prompt.size(), 2u);
  EXPECT_EQ(job.prompt[0], 2);
  EXPECT_EQ(job.tokenizer->decode(job.prompt), "hello world");
  EXPECT_FALSE(job.stops_at(*job.tokenizer->end_of_turn()));
  flags_.chat = true;
  const GenerateJob chat = make_generate_job(flags_);
  EXPECT_EQ(chat.prompt[1], *chat.tokenizer->start_of_turn());
  EXPECT_TRUE(chat.stops_at(*chat.tokenizer->end_of_turn()));
  const auto device = testing::cpu();
  const Record record = generated(job, Mode::vanilla, *device);
  EXPECT_FALSE(text_of(*record.metrics, "text").empty()) << record.error;
}

TEST_F(GenerateJobs, TokensBeyondTheTokenizerStandWhereTheyWereGenerated) {
  std::vector<Piece> pieces = small_pieces();
  while (pieces.back().kind != PieceKind::byte) pieces.pop_back();
  write("tokenizer.model", model_file(pieces));
  flags_.rules = {.temperature = 100};
  flags_.max_new_tokens = 120;
  GenerateJob job = make_generate_job(flags_);
  job.stops.clear();
  ASSERT_GT(job.config.vocabulary, job.tokenizer->size());
  const auto device = testing::cpu();
  const Record record = generated(job, Mode::vanilla, *device);
  std::string expected;
  std::vector<int32_t> run;  // of ids that the tokenizer has
  const auto end_run = [&] {
    expected += job.tokenizer->decode(run);
    run.clear();
  };
  for (const int32_t id : tokens_of(record)) {
    if (id < job.tokenizer->size()) {
      run.push_back(id);
      continue;
    }
    end_run();
    expected += "<" + std::to_string(id) + ">";
  }
  end_run();
  EXPECT_EQ(text_of(*record.metrics, "text"), expected);
}

TEST_F(GenerateJobs, WeightsOfFilesGiveTheTokensOfTheSameWeightsDrawn) {
  const auto device = testing::cpu();
  flags_.max_new_tokens = 8;
  for (const char* dtype : {"fp32", "bf16"}) {
    flags_.dtype = dtype;
    flags_.random_weights = true;
    const GenerateJob drawn = make_generate_job(flags_);
    EXPECT_FALSE(drawn.weights);
    save_weights(folder_.path() / "model.safetensors", gemma3_parameters(drawn.config),
                 [](const Parameter& parameter) { return beginning_of(parameter, kSeed); });
    flags_.random_weights = false;
    const GenerateJob stored = make_generate_job(flags_);
    ASSERT_TRUE(stored.weights);
    EXPECT_EQ(tokens_of(generated(stored, Mode::vanilla, *device)),
              tokens_of(generated(drawn, Mode::vanilla, *device)))
        << dtype;
  }
}

TEST_F(GenerateJobs, WhatIsMissingOrContradictsItselfIsRefusedByName) {
  use_text("hello");
  expect_refusal("neither tokenizer.model nor tokenizer.json");
  use_text("");
  expect_refusal("--prompt is empty");
  flags_.gave_ids = true;
  expect_refusal("--prompt and --prompt-ids");
  flags_.gave_prompt = flags_.gave_ids = false;
  expect_refusal("no prompt");
  flags_.gave_ids = true;
  flags_.chat = true;
  expect_refusal("--chat");
  flags_.chat = false;
  for (const char* id : {"320", "-1"}) {
    flags_.prompt_ids = {"2", id};
    expect_refusal("the vocabulary of");
  }
  flags_.prompt_ids = {"2", "x7"};
  expect_refusal("'x7'");
  flags_.prompt_ids = {"2"};
  flags_.random_weights = false;
  expect_refusal("model.safetensors");
  flags_.model_config = "270m";
  expect_refusal("--model and --model-config");
  flags_.model.clear();
  expect_refusal("--random-weights");
  flags_.model_config.clear();
  expect_refusal("no model");
  flags_.model_config = "271m";
  expect_refusal("271m");
}

}  // namespace
}  // namespace ridgeline::generate_study_test
