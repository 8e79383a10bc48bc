// Files of Gemma-3: config.json, the index of several files, and the files behind it.
#include "models/gemma3.h"

#include "fuzz/fuzz.h"
#include "models/weight_files.h"

namespace ridgeline {
namespace {

const char* const kSmallConfig =
    R"({"model_type":"gemma3_text","hidden_size":64,"num_hidden_layers":3,"layer_types":[)"
    R"("sliding_attention","full_attention","sliding_attention"],"sliding_window_pattern":2,)"
    R"("num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"rope_theta":1e6,)"
    R"("rope_scaling":{"rope_type":"linear","factor":8.0},"eos_token_id":[1,106],"bos_token_id":2,)"
    R"("attn_logit_softcapping":50.0,"torch_dtype":"bfloat16","vocab_size":512})";
const char* const kNestedConfig =
    R"({"model_type":"gemma3","text_config":{"hidden_size":64,"rope_parameters":{"full_attention":)"
    R"({"rope_type":"linear","factor":8.0,"rope_theta":1e6},"sliding_attention":null}},)"
    R"("tie_word_embeddings":false})";

TEST(SlowFuzz, Gemma3Config) {
  const TempDir folder;
  fuzz({.name = "Gemma3Config",
        .seeds = {kSmallConfig, kNestedConfig},
        .words = {"\"hidden_size\":", "\"num_hidden_layers\":", "\"layer_types\":[",
                  "\"sliding_attention\",", "\"rope_parameters\":{", "\"rope_type\":\"yarn\",",
                  "\"text_config\":{", "null,", "true,", "-1,", "1e999,", "18446744073709551615,",
                  "0.5,", "[", "]", "{", "}"},
        .run =
            [&](const std::string& input) {
              write_text(folder / "config.json", input);
              // What is taken makes a model that can be counted.
              const Gemma3Config config = read_gemma3_config(folder / "config.json");
              if (parameter_count(config) < 1) ADD_FAILURE() << input;
            },
        .inputs = 8000});
}

TEST(SlowFuzz, WeightIndex) {
  const TempDir folder;
  for (const char* file : {"one.safetensors", "two.safetensors"})
    save_weights(folder / file, std::vector<Parameter>{{std::string(1, file[0]), {2}}},
                 [](const Parameter&) {
                   return std::vector<float>{1, 2};
                 });
  fuzz({.name = "WeightIndex",
        .seeds = {R"({"metadata":{"total_size":16},"weight_map":{"o":"one.safetensors",)"
                  R"("t":"two.safetensors"}})"},
        .words = {"\"weight_map\":{", "\"../one.safetensors\"", "\"/dev/zero\"",
                  "\"o\":", "\"two.safetensors\",", "{", "}", "[", "\"metadata\":{"},
        .run =
            [&](const std::string& input) {
              write_text(folder / "model.safetensors.index.json", input);
              const WeightFiles files(folder.path());
              for (const std::string& name : files.names()) files.read_floats(name);
            },
        .inputs = 8000});
}

}  // namespace
}  // namespace ridgeline
