// Weights in several files with an index, and under the names that Gemma-3's files have.
#include "models/weight_files.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "measure/test_support.h"
#include "models/gemma3.h"
#include "models/gemma3_oracle.h"
#include "models/gemma3_weights.h"

namespace ridgeline {
namespace {

using Named = std::vector<Parameter>;

// Tensors whose values tell their place in the list.
void save_shard(const std::filesystem::path& path, const Named& tensors) {
  float next = 0;
  save_weights(path, tensors, [&](const Parameter& parameter) {
    return std::vector<float>(static_cast<size_t>(element_count(parameter.shape)), next++);
  });
}

Parameter tensor(const std::string& name, Shape shape = {2, 3}) {
  return {name, shape};
}

std::string index_text(const std::vector<std::pair<std::string, std::string>>& files) {
  std::string entries;
  for (const auto& [name, file] : files)
    entries += fmt::format("{}\"{}\": \"{}\"", entries.empty() ? "" : ", ", name, file);
  return fmt::format(R"({{"metadata": {{"total_size": 48}}, "weight_map": {{{}}}}})", entries);
}

std::string message_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::usage) << error.message();
    return error.message();
  }
  return "nothing was refused";
}

class SeveralFiles : public ::testing::Test {
 protected:
  void SetUp() override {
    save_shard(folder_ / "one.safetensors", {tensor("a"), tensor("b")});
    save_shard(folder_ / "two.safetensors", {tensor("c")});
  }
  std::string refusal(const std::string& index) {
    write_text(folder_ / "model.safetensors.index.json", index);
    return message_of([&] { WeightFiles files(folder_.path()); });
  }
  void expect_refusal(const std::string& index, const std::string& part) {
    EXPECT_HAS(refusal(index), part) << index << "\n" << refusal(index);
  }

  TempDir folder_;
};

TEST_F(SeveralFiles, AreReadAsOne) {
  write_text(
      folder_ / "model.safetensors.index.json",
      index_text({{"c", "two.safetensors"}, {"a", "one.safetensors"}, {"b", "one.safetensors"}}));
  for (const auto& path : {folder_.path(), folder_ / "model.safetensors.index.json"}) {
    std::vector<std::string> seen;
    load_weights(path, Named{tensor("c"), tensor("b"), tensor("a")},
                 [&](const Parameter& parameter, std::span<const float> values) {
                   EXPECT_EQ(values.size(), 6u);
                   seen.push_back(fmt::format("{}{}", parameter.name, values[0]));
                 });
    EXPECT_EQ(seen, (std::vector<std::string>{"c0", "b1", "a0"}));
  }
  EXPECT_HAS(message_of([&] { check_weights(WeightFiles(folder_.path()), Named{tensor("a")}); }),
             "the model has no 'b'");
}

TEST_F(SeveralFiles, AnIndexThatDoesNotFitItsFilesIsRefused) {
  const std::pair<std::string, std::string> a = {"a", "one.safetensors"},
                                            b = {"b", "one.safetensors"},
                                            c = {"c", "two.safetensors"};
  expect_refusal(index_text({a, c}), "does not put 'b' into 'one.safetensors'");
  expect_refusal(index_text({a, b, c, {"d", "two.safetensors"}}),
                 "puts 'd' into 'two.safetensors'");
  expect_refusal(index_text({a, b, c, {"d", "three.safetensors"}}), "three.safetensors");
  expect_refusal(index_text({a, b, c, {"a", "two.safetensors"}}), "names 'a' twice");
  save_shard(folder_ / "two.safetensors", {tensor("c"), tensor("a")});
  expect_refusal(index_text({a, b, c}), "does not put 'a' into 'two.safetensors'");
}

TEST_F(SeveralFiles, FilesThatAreNotBesideTheIndexAreRefused) {
  for (const char* file : {"../one.safetensors", "/etc/one.safetensors", "sub/one.safetensors",
                           "..", "", ".safetensors", "..safetensors", "one.bin",
                           "a\\\\b.safetensors", "one.safetensors\\u0000.safetensors"})
    expect_refusal(index_text({{"a", file}}), "expected a .safetensors file beside it");
}

TEST_F(SeveralFiles, WhatIsNoIndexIsRefused) {
  for (const char* text :
       {"", "[]", "3", "\"weight_map\"", "{}", R"({"weight_map": {}})", R"({"weight_map": []})",
        R"({"weight_map": "one.safetensors"})", R"({"weight_map": null})",
        R"({"weight_map": {"a": 1}})", R"({"weight_map": {"a": ["one.safetensors"]}})",
        R"({"weight_map": {"a": {"b": "one.safetensors"}}})",
        R"({"weight_map": {"a": "one.safetensors"}, "weight_map": {"a": "one.safetensors"}})",
        R"({"metadata": {"weight_map": {"a": "one.safetensors"}}})",
        R"({"weight_map": {"a": "one.safetensors"})"})
    EXPECT_NE(refusal(text), "nothing was refused") << text;
  expect_refusal(std::string(1000, '['), "nested deeper");
}

// ---- names of Gemma-3's files

struct Stored {
  TempDir folder;
  std::vector<std::string> lines;

  WeightFiles open(const Gemma3Config& config, const Named& tensors) {
    save_shard(folder / "model.safetensors", tensors);
    return open_gemma3_weights(folder.path(), config,
                               [&](const std::string& line) { lines.push_back(line); });
  }
};

Named with_prefix(const Named& parameters, const std::string& prefix) {
  Named renamed = parameters;
  for (Parameter& parameter : renamed)
    parameter.name = prefix + parameter.name.substr(std::string("model.").size());
  return renamed;
}

TEST(Gemma3Weights, EveryGenerationOfNamesIsRead) {
  const Gemma3Config config = testing::tiny_gemma();
  const Named own = gemma3_parameters(config);
  for (const char* prefix : {"model.", "language_model.model.", "model.language_model."}) {
    Stored stored;
    const WeightFiles files = stored.open(config, with_prefix(own, prefix));
    EXPECT_TRUE(stored.lines.empty()) << prefix;
    EXPECT_EQ(files.read_floats(own[5].name)[0], 5) << prefix;
  }
}

TEST(Gemma3Weights, VisionAndATiedHeadAreLeftOutWithOneLine) {
  const Gemma3Config config = testing::tiny_gemma();
  Named stored_names = with_prefix(gemma3_parameters(config), "language_model.model.");
  stored_names.push_back(tensor("vision_tower.vision_model.embeddings.weight"));
  stored_names.push_back(tensor("multi_modal_projector.mm_input_projection_weight"));
  Stored vision;
  EXPECT_EQ(vision.open(config, stored_names).find("vision_tower.vision_model.embeddings.weight"),
            nullptr);
  ASSERT_EQ(vision.lines.size(), 1u);
  EXPECT_HAS(vision.lines[0], "2 tensors of the vision tower");

  stored_names.push_back(
      tensor("language_model.lm_head.weight", {config.vocabulary, config.hidden_size}));
  Stored head;
  EXPECT_EQ(head.open(config, stored_names).find("lm_head.weight"), nullptr);
  ASSERT_EQ(head.lines.size(), 1u);
  EXPECT_HAS(head.lines[0], "tied");

  stored_names.back().shape = {config.vocabulary, 1};
  EXPECT_HAS(message_of([&] { Stored().open(config, stored_names); }), "lm_head.weight");
}

TEST(Gemma3Weights, OtherModelsAreRefusedByName) {
  const Gemma3Config config = testing::tiny_gemma();
  const Named own = gemma3_parameters(config);
  Named twice = own;
  twice.push_back({"language_model." + own[3].name, own[3].shape});
  EXPECT_HAS(message_of([&] { Stored().open(config, twice); }), "twice");
  Named missing = own;
  missing.erase(missing.begin() + 4);
  EXPECT_HAS(message_of([&] { Stored().open(config, missing); }), own[4].name);
  Named extra = own;
  extra.push_back(tensor("model.layers.0.self_attn.q_proj.bias"));
  EXPECT_HAS(message_of([&] { Stored().open(config, extra); }), "q_proj.bias");
  Named other = own;
  other[2].shape = {1, 2};
  EXPECT_HAS(message_of([&] { Stored().open(config, other); }), own[2].name);
}

}  // namespace
}  // namespace ridgeline
