// The tensors of a model, in one file of the safetensors format or in several with an index:
//
//   WeightFiles files("gemma-3-4b-it");  // or a file, or model.safetensors.index.json
//   check_weights(files, gemma3_parameters(config));
//   const std::vector<float> norm = files.read_floats("model.norm.weight");
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/safetensors.h"

namespace ridgeline {

// {name: file} of an index, {"weight_map": {...}}. Throws a usage error for anything else, for a
// name that is given twice, and for files that are not beside the index.
std::map<std::string, std::string> parse_weight_index(std::string_view text);

class WeightFiles {
 public:
  // A file of tensors, an index (its name ends in ".json"), or a folder with model.safetensors or
  // model.safetensors.index.json in it. Reads headers only. Throws a usage error that names the
  // file: for shards that are missing, that lack a tensor of the index, or have one that the index
  // does not put there.
  explicit WeightFiles(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<SafetensorsFile>& files() const { return files_; }
  size_t size() const { return places_.size(); }
  // Null if there is none.
  const StoredTensor* find(std::string_view name) const;
  std::vector<std::byte> read(std::string_view name) const;
  std::vector<float> read_floats(std::string_view name) const;

  // Renames tensors with `name_of`; those that get an empty name are dropped. Throws a usage error
  // if two get the same.
  void rename(const std::function<std::string(const std::string&)>& name_of);
  std::vector<std::string> names() const;

 private:
  struct Place {
    size_t file = 0;
    const StoredTensor* tensor = nullptr;
  };
  void open_index(const std::filesystem::path& index);
  void add(std::string name, Place place);
  const Place& place(std::string_view name) const;

  std::filesystem::path path_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, Place, std::less<>> places_;
};

// Throws a usage error if the files lack a tensor of the model, have another one, or have one of
// another shape or of a dtype that is none of F32, BF16 and F16.
void check_weights(const WeightFiles& files, std::span<const Parameter> parameters);

// Passes each tensor of a model to `use` as it is read, after checking all of them.
using UseWeights = std::function<void(const Parameter&, std::span<const float>)>;
void load_weights(const WeightFiles& files, std::span<const Parameter> parameters,
                  const UseWeights& use);
void load_weights(const std::filesystem::path& path, std::span<const Parameter> parameters,
                  const UseWeights& use);

}  // namespace ridgeline
