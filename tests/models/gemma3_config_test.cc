// config.json of Gemma-3 in all its spellings, and what is refused.
#include "models/gemma3_config.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "measure/test_support.h"

namespace ridgeline {
namespace {

// As published for the 270m, shortened to what is read.
const char* const k270m = R"({"_sliding_window_pattern": 6, "architectures": ["Gemma3ForCausalLM"],
  "attention_bias": false, "attn_logit_softcapping": null, "bos_token_id": 2, "eos_token_id": 1,
  "final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh",
  "hidden_size": 640, "initializer_range": 0.02, "intermediate_size": 2048, "layer_types": [
  "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
  "sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
  "sliding_attention", "sliding_attention", "sliding_attention", "full_attention",
  "sliding_attention", "sliding_attention", "sliding_attention", "sliding_attention",
  "sliding_attention", "full_attention"], "max_position_embeddings": 32768,
  "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 18,
  "num_key_value_heads": 1, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06,
  "rope_local_base_freq": 10000.0, "rope_scaling": null, "rope_theta": 1000000.0,
  "sliding_window": 512, "torch_dtype": "bfloat16", "use_bidirectional_attention": false,
  "vocab_size": 262144})";

// As published for the 4b: most of its text model is left to the class.
const char* const k4b = R"({"architectures": ["Gemma3ForConditionalGeneration"],
  "eos_token_id": [1, 106], "model_type": "gemma3", "text_config": {"hidden_size": 2560,
  "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
  "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024},
  "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 1152, "model_type": "siglip"}})";

Json changed(const char* text, const std::string& key, Json value) {
  Json json = Json::parse(text);
  json[key] = std::move(value);
  return json;
}

void expect_same(const Gemma3Config& got, const Gemma3Config& expected) {
  EXPECT_EQ(got.vocabulary, expected.vocabulary);
  EXPECT_EQ(got.hidden_size, expected.hidden_size);
  EXPECT_EQ(got.intermediate_size, expected.intermediate_size);
  EXPECT_EQ(got.heads, expected.heads);
  EXPECT_EQ(got.key_heads, expected.key_heads);
  EXPECT_EQ(got.head_dim, expected.head_dim);
  EXPECT_EQ(got.sliding_window, expected.sliding_window);
  EXPECT_EQ(got.max_positions, expected.max_positions);
  EXPECT_EQ(got.layers, expected.layers);
  EXPECT_EQ(got.full_rope, expected.full_rope);
  EXPECT_EQ(got.sliding_rope, expected.sliding_rope);
  EXPECT_EQ(got.query_scalar, expected.query_scalar);
  EXPECT_EQ(got.norm_epsilon, expected.norm_epsilon);
  EXPECT_EQ(got.score_cap, expected.score_cap);
  EXPECT_EQ(got.logit_cap, expected.logit_cap);
  EXPECT_EQ(got.tied_head, expected.tied_head);
  EXPECT_EQ(got.dtype, expected.dtype);
  EXPECT_EQ(got.bos, expected.bos);
}

TEST(Gemma3Config, PublishedFilesAreTheModelsThatHaveNames) {
  const Gemma3Config small = parse_gemma3_config(Json::parse(k270m));
  expect_same(small, gemma3_config("270m"));
  EXPECT_EQ(small.eos, std::vector<int64_t>{1});
  const Gemma3Config large = parse_gemma3_config(Json::parse(k4b));
  expect_same(large, gemma3_config("4b"));
  EXPECT_EQ(large.eos, (std::vector<int64_t>{1, 106}));
  EXPECT_THROW(gemma3_config("7b"), Error);
}

TEST(Gemma3Config, EverySpellingOfLayersAndAnglesIsRead) {
  // The 1b and 27b, and files of transformers 5.
  Json pattern = Json::parse(k270m);
  for (const char* key : {"_sliding_window_pattern", "layer_types"}) pattern.erase(key);
  expect_same(parse_gemma3_config(pattern), gemma3_config("270m"));
  pattern["sliding_window_pattern"] = 3;
  EXPECT_EQ(parse_gemma3_config(pattern).layers, gemma3_layers(18, 3));
  // transformers 5 writes "_sliding_window_pattern": 6 beside any types of layers.
  Json full = Json::array();
  for (int layer = 0; layer < 18; ++layer) full.push_back("full_attention");
  EXPECT_EQ(parse_gemma3_config(changed(k270m, "layer_types", full)).layers, gemma3_layers(18, 1));

  Json newer = Json::parse(k270m);
  for (const char* key : {"rope_theta", "rope_local_base_freq", "rope_scaling", "torch_dtype"})
    newer.erase(key);
  newer["dtype"] = "float32";
  newer["rope_parameters"] =
      Json::parse(R"({"full_attention": {"rope_type": "linear", "factor": 8.0, "rope_theta": 5e5},
                      "sliding_attention": {"rope_type": "default", "rope_theta": 2e4}})");
  const Gemma3Config config = parse_gemma3_config(newer);
  EXPECT_EQ(config.full_rope, (Gemma3Rope{.theta = 5e5, .factor = 8}));
  EXPECT_EQ(config.sliding_rope, (Gemma3Rope{.theta = 2e4}));
  EXPECT_EQ(config.dtype, DType::f32);
  newer["rope_theta"] = 1e6;  // says something else
  EXPECT_THROW(parse_gemma3_config(newer), Error);
  newer["rope_theta"] = 5e5;
  EXPECT_EQ(parse_gemma3_config(newer).full_rope.theta, 5e5);

  const Json scaling = Json::parse(R"({"type": "linear", "factor": 4})");
  EXPECT_EQ(parse_gemma3_config(changed(k270m, "rope_scaling", scaling)).full_rope.factor, 4);
  EXPECT_EQ(parse_gemma3_config(changed(k270m, "attn_logit_softcapping", 50)).score_cap, 50);
  EXPECT_EQ(parse_gemma3_config(changed(k270m, "final_logit_softcapping", 30.0)).logit_cap, 30);
  EXPECT_FALSE(parse_gemma3_config(changed(k270m, "tie_word_embeddings", false)).tied_head);
  EXPECT_FALSE(parse_gemma3_config(changed(k4b, "tie_word_embeddings", false)).tied_head);
}

// Each with the key that the message must name.
TEST(Gemma3Config, WhatTheGraphsDoNotComputeIsRefusedByName) {
  const Json none;
  const std::vector<std::pair<std::string, Json>> cases = {
      {"use_bidirectional_attention", true},
      {"use_bidirectional_attention", "all"},
      {"attention_bias", true},
      {"hidden_activation", "silu"},
      {"hidden_act", "gelu"},
      {"model_type", "gemma2"},
      {"model_type", none},
      {"quantization_config", Json::parse(R"({"bits": 4})")},
      {"rope_scaling", Json::parse(R"({"rope_type": "yarn", "factor": 8})")},
      {"rope_scaling", Json::parse(R"({"rope_type": "linear"})")},
      {"rope_scaling", Json::parse(R"({"rope_type": "linear", "factor": 0.5})")},
      {"rope_scaling", Json::parse(R"({"rope_type": "default", "factor": 8})")},
      {"rope_scaling", Json::parse(R"({"rope_type": "linear", "factor": 8, "beta_fast": 32})")},
      {"rope_parameters", Json::parse(R"({"rope_theta": 1e6})")},
      {"rope_parameters", Json::parse(R"({"full_attention": 3})")},
      {"layer_types", Json::parse(R"(["sliding_attention"])")},
      {"layer_types", "full_attention"},
      {"sliding_window_pattern", 5},
      {"_sliding_window_pattern", 0},
      {"hidden_size", 0},
      {"hidden_size", -640},
      {"hidden_size", 640.5},
      {"hidden_size", "640"},
      {"hidden_size", Json::parse("18446744073709551615")},
      {"intermediate_size", int64_t{1} << 40},
      {"num_hidden_layers", 100000},
      {"num_attention_heads", 0},
      {"num_key_value_heads", 3},
      {"head_dim", 255},
      {"vocab_size", 1 << 25},
      {"max_position_embeddings", Json::parse("[1]")},
      {"sliding_window", -1},
      {"rms_norm_eps", 0},
      {"rms_norm_eps", 1e300},
      {"query_pre_attn_scalar", -256},
      {"attn_logit_softcapping", 0},
      {"tie_word_embeddings", 1},
      {"torch_dtype", "int8"},
      {"eos_token_id", 262144},
      {"eos_token_id", Json::parse("[1, -2]")},
      {"bos_token_id", "2"},
  };
  for (const auto& [key, value] : cases)
    EXPECT_ERROR(parse_gemma3_config(changed(k270m, key, value)), ErrorKind::usage, key);
  Json other_text = Json::parse(k4b);
  other_text["text_config"] = Json::parse(R"({"model_type": "gemma2"})");
  EXPECT_THROW(parse_gemma3_config(other_text), Error);
  other_text.erase("text_config");
  EXPECT_THROW(parse_gemma3_config(other_text), Error);
  EXPECT_THROW(parse_gemma3_config(Json::array()), Error);
}

TEST(Gemma3Config, WhatIsWrittenIsReadAgain) {
  for (const Gemma3Config& size : gemma3_sizes())
    expect_same(parse_gemma3_config(Json::parse(gemma3_config_json(size).dump())), size);
  EXPECT_TRUE(gemma3_config_json(gemma3_config("1b"))["query_pre_attn_scalar"].is_number_integer())
      << "transformers refuses 256.0";
  Gemma3Config other = gemma3_config("4b");
  other.score_cap = 50;
  other.logit_cap = 30;
  other.tied_head = false;
  expect_same(parse_gemma3_config(Json::parse(gemma3_config_json(other).dump())), other);
}

TEST(Gemma3Config, EveryDtypeIsWrittenByItsName) {
  for (const DType dtype : {DType::bf16, DType::f16, DType::f32}) {
    Gemma3Config config = gemma3_config("270m");
    config.dtype = dtype;
    EXPECT_EQ(parse_gemma3_config(gemma3_config_json(config)).dtype, dtype) << info(dtype).name;
  }
}

// The files of all published models have one name.
TEST(Gemma3Config, AConfigJsonIsNamedAfterItsFolder) {
  const TempDir folder;
  for (const char* model : {"one", "two"}) {
    std::filesystem::create_directory(folder / model);
    write_text(folder / model / "config.json", k270m);
    EXPECT_EQ(find_gemma3_config(folder / model / "config.json").name, model);
    EXPECT_EQ(find_gemma3_config(folder / model / ".." / model / "." / "config.json").name, model);
  }
  write_text(folder / "tiny.json", k270m);
  EXPECT_EQ(find_gemma3_config(folder / "tiny.json").name, "tiny");
}

TEST(Gemma3Config, FilesAreNamedInErrors) {
  const TempDir folder;
  write_text(folder / "config.json", k270m);
  expect_same(read_gemma3_config(folder / "config.json"), gemma3_config("270m"));
  write_text(folder / "damaged.json", std::string(k270m).substr(0, 100));
  for (const char* name : {"damaged.json", "missing.json", "."})
    EXPECT_ERROR(read_gemma3_config(folder / name), ErrorKind::usage, name);
}

}  // namespace
}  // namespace ridgeline
