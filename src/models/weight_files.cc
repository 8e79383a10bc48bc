#include "models/weight_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/error.h"

namespace ridgeline {

namespace {

namespace fs = std::filesystem;

constexpr int64_t kLargestIndex = 64 << 20;  // bytes
constexpr size_t kMostShards = 1000;

std::string shape_text(std::span<const int64_t> shape) {
  std::string text;
  for (int64_t size : shape) text += fmt::format("{}{}", text.empty() ? "" : ", ", size);
  return '[' + text + ']';
}

Error bad_index(const fs::path& index, const std::string& problem) {
  return {ErrorKind::usage, fmt::format("'{}' {}", index.string(), problem),
          "index and shards belong to each other; get all of them again"};
}

}  // namespace

WeightFiles::WeightFiles(const fs::path& path) : path_(path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const fs::path index = path / "model.safetensors.index.json";
    path_ = fs::exists(index, ignored) ? index : path / "model.safetensors";
  }
  if (path_.extension() == ".json") {
    open_index(path_);
    return;
  }
  files_.emplace_back(path_);
  for (const StoredTensor& tensor : files_[0].header().tensors) add(tensor.name, {0, &tensor});
}

void WeightFiles::open_index(const fs::path& index) {
  std::map<std::string, std::string> file_of;
  try {
    file_of = parse_weight_index(read_file(index, kLargestIndex));
  } catch (const Error& error) {
    throw error.at(index.string());
  }
  std::map<std::string, size_t> numbers;  // of shards
  for (const auto& [name, shard] : file_of) numbers.emplace(shard, 0);
  if (numbers.size() > kMostShards)
    throw bad_index(
        index, fmt::format("names {} files, expected at most {}", numbers.size(), kMostShards));
  files_.reserve(numbers.size());
  for (auto& [shard, number] : numbers) {
    number = files_.size();
    files_.emplace_back(index.parent_path() / shard);
    for (const StoredTensor& tensor : files_.back().header().tensors) {
      const auto found = file_of.find(tensor.name);
      if (found == file_of.end() || found->second != shard)
        throw bad_index(index, fmt::format("does not put '{}' into '{}', which has it",
                                           shown_name(tensor.name), shown_name(shard)));
      add(tensor.name, {number, &tensor});
    }
  }
  for (const auto& [name, shard] : file_of)
    if (find(name) == nullptr)
      throw bad_index(index, fmt::format("puts '{}' into '{}', which lacks it", shown_name(name),
                                         shown_name(shard)));
}

void WeightFiles::add(std::string name, Place place) {
  const auto [at, is_new] = places_.emplace(std::move(name), place);
  if (!is_new)
    throw Error(ErrorKind::usage,
                fmt::format("'{}' has '{}' twice: as '{}' and as '{}'", path_.string(),
                            shown_name(at->first), shown_name(at->second.tensor->name),
                            shown_name(place.tensor->name)));
}

const StoredTensor* WeightFiles::find(std::string_view name) const {
  const auto found = places_.find(name);
  return found == places_.end() ? nullptr : found->second.tensor;
}

const WeightFiles::Place& WeightFiles::place(std::string_view name) const {
  const auto found = places_.find(name);
  if (found == places_.end())
    throw Error(ErrorKind::usage, fmt::format("'{}' has no tensor '{}'", path_.string(), name));
  return found->second;
}

std::vector<std::byte> WeightFiles::read(std::string_view name) const {
  const Place& at = place(name);
  return files_[at.file].read(*at.tensor);
}

std::vector<float> WeightFiles::read_floats(std::string_view name) const {
  const Place& at = place(name);
  return files_[at.file].read_floats(*at.tensor);
}

void WeightFiles::rename(const std::function<std::string(const std::string&)>& name_of) {
  const auto before = std::exchange(places_, {});
  for (const auto& [name, at] : before)
    if (std::string now = name_of(name); !now.empty()) add(std::move(now), at);
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> names;
  for (const auto& [name, at] : places_) names.push_back(name);
  return names;
}

void check_weights(const WeightFiles& files, std::span<const Parameter> parameters) {
  const std::string path = files.path().string();
  const auto refuse = [](const std::string& problem, const char* whose) {
    return Error(ErrorKind::usage, problem, fmt::format("the file belongs to {}", whose));
  };
  for (const Parameter& parameter : parameters) {
    const StoredTensor* tensor = files.find(parameter.name);
    if (tensor == nullptr)
      throw refuse(fmt::format("'{}' has no tensor '{}'", path, parameter.name),
                   "another model or a smaller one");
    if (!std::ranges::equal(tensor->shape, parameter.shape.span()))
      throw refuse(fmt::format("'{}' has '{}' as {}, expected {}", path, parameter.name,
                               shown_name(shape_text(tensor->shape)), to_string(parameter.shape)),
                   "a model of another size");
    expect_floats(files.path(), *tensor);
  }
  if (files.size() == parameters.size()) return;
  std::vector<std::string> names = files.names();
  const auto extra = std::ranges::find_if(names, [&](const std::string& name) {
    return std::ranges::find(parameters, name, &Parameter::name) == parameters.end();
  });
  throw refuse(fmt::format("'{}' has {} tensors, expected {}; the model has no '{}'", path,
                           files.size(), parameters.size(), shown_name(*extra)),
               "another model or a larger one");
}

void load_weights(const WeightFiles& files, std::span<const Parameter> parameters,
                  const UseWeights& use) {
  check_weights(files, parameters);
  for (const Parameter& parameter : parameters) use(parameter, files.read_floats(parameter.name));
}

void load_weights(const fs::path& path, std::span<const Parameter> parameters,
                  const UseWeights& use) {
  load_weights(WeightFiles(path), parameters, use);
}

}  // namespace ridgeline
