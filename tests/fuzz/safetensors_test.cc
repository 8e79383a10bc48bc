// Files of weights: the header, its offsets, and the values behind them.
#include "models/weight_files.h"
#include "fuzz/fuzz.h"
#include "models/transformer_lm.h"

namespace ridgeline {
namespace {

const TransformerConfig kTiny{.name = "custom",
                              .d_model = 4,
                              .d_ff = 4,
                              .layers = 1,
                              .heads = 1,
                              .vocabulary = 5,
                              .batch_size = 1,
                              .context_length = 2};

std::vector<std::string> seeds(const TempDir& folder) {
  const std::vector<Parameter> parameters = transformer_parameters(kTiny);
  save_weights(folder / "good", parameters,
               [](const Parameter& parameter) {
                 return std::vector<float>(static_cast<size_t>(element_count(parameter.shape)), 1);
               },
               {{"format", "pt"}});
  const std::string text =
      R"({"a":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BF16","shape":[4],)"
      R"("data_offsets":[24,32]},"__metadata__":{"k":"v"}})";
  std::string small(8, '\0');
  small[0] = static_cast<char>(text.size());
  return {read_text(folder / "good"), small + text + std::string(32, '\1')};
}

TEST(SlowFuzz, Safetensors) {
  const TempDir folder;
  const std::vector<Parameter> parameters = transformer_parameters(kTiny);
  fuzz({.name = "Safetensors",
        .seeds = seeds(folder),
        .words = {"\"dtype\":\"F32\",", "\"shape\":[", "\"data_offsets\":[0,8]", "\"F8_E4M3\"", "{",
                  "}", "\"__metadata__\":{", "9223372036854775807,"},
        .run =
            [&](const std::string& input) {
              write_text(folder / "weights", input);
              const SafetensorsFile file(folder / "weights");
              for (const StoredTensor& tensor : file.header().tensors) {
                file.read(tensor);
                if (tensor.dtype.find('F') != std::string::npos &&
                    tensor.dtype.find("F8") == std::string::npos && tensor.dtype != "F64")
                  file.read_floats(tensor);
              }
              check_weights(WeightFiles(folder / "weights"), parameters);
            },
        .inputs = 5000});
}

}  // namespace
}  // namespace ridgeline
