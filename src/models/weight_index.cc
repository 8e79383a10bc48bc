// Reads the index of a model that is stored in several files: {"weight_map": {tensor: file}}.
#include <fmt/format.h>

#include "base/damaged_file.h"
#include "base/json.h"
#include "models/weight_files.h"

namespace ridgeline {
namespace {

Error bad_index_text(const std::string& problem) {
  return damaged_file("the index of weights " + problem);
}

// Only a file beside the index is accepted, because a path could lead anywhere.
bool is_plain_file(const std::string& file) {
  constexpr std::string_view kEnding = ".safetensors";
  constexpr size_t kMaxFileName = 255;
  return file.size() > kEnding.size() && file.ends_with(kEnding) &&
         file.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos && file[0] != '.' &&
         file.size() <= kMaxFileName;
}

}  // namespace

std::map<std::string, std::string> parse_weight_index(std::string_view text) {
  std::map<std::string, std::string> files;
  const auto add = [&](const std::string& tensor, const Json& file) {
    if (!file.is_string() || !is_plain_file(file.text()))
      throw bad_index_text(fmt::format(
          "puts '{}' into '{}', expected a .safetensors file beside it", shown_name(tensor),
          shown_name(file.is_string() ? file.text() : file.dump())));
    if (!files.emplace(tensor, file.text()).second)
      throw bad_index_text(fmt::format("names '{}' twice", shown_name(tensor)));
  };
  Json index;
  try {
    index = Json::parse(text, {{{{"weight_map"}, add}}});
  } catch (const JsonError& error) {
    throw bad_index_text(error.what());
  }
  const Json* map = index.find_key("weight_map");
  if (!map || !map->is_object()) throw bad_index_text("has no object weight_map");
  if (files.empty()) throw bad_index_text("names no tensor");
  return files;
}

}  // namespace ridgeline
