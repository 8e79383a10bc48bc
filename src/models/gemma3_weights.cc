#include "models/gemma3_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "models/gemma3.h"

namespace ridgeline {
namespace {

constexpr std::string_view kVision[] = {"vision_tower.", "multi_modal_projector.",
                                        "model.vision_tower.", "model.multi_modal_projector."};

struct Prefix {
  std::string_view stored, own;
};
constexpr Prefix kPrefixes[] = {{"language_model.model.", "model."},
                                {"model.language_model.", "model."},
                                {"language_model.lm_head.", "lm_head."}};

bool is_vision(const std::string& name) {
  return std::ranges::any_of(kVision, [&](auto prefix) { return name.starts_with(prefix); });
}

std::string own_name(const std::string& name) {
  for (const Prefix& prefix : kPrefixes)
    if (name.starts_with(prefix.stored))
      return fmt::format("{}{}", prefix.own, name.substr(prefix.stored.size()));
  return name;
}

}  // namespace

WeightFiles open_gemma3_weights(const std::filesystem::path& path, const Gemma3Config& config,
                                const std::function<void(const std::string&)>& message) {
  const std::string head = "lm_head.weight";
  WeightFiles files(path);
  int64_t skipped = 0;
  files.rename([&](const std::string& name) {
    if (!is_vision(name)) return own_name(name);
    ++skipped;
    return std::string();
  });
  std::string line;
  if (skipped > 0)
    line = fmt::format("{} tensors of the vision tower and its projector are not read", skipped);
  const std::vector<Parameter> parameters = gemma3_parameters(config);
  if (const StoredTensor* stored = config.tied_head ? files.find(head) : nullptr) {
    if (!std::ranges::equal(stored->shape, parameters[0].shape.span()))
      throw Error(
          ErrorKind::usage,
          fmt::format("'{}' has '{}', which is tied to the embedding {} but of another shape",
                      files.path().string(), head, to_string(parameters[0].shape)),
          "the file belongs to another model");
    files.rename([&](const std::string& name) { return name == head ? std::string() : name; });
    line += fmt::format("{}{} is not read: the head is tied to the embedding",
                        line.empty() ? "" : "; ", head);
  }
  check_weights(files, parameters);
  if (message && !line.empty()) message(fmt::format("{}: {}", files.path().string(), line));
  return files;
}

}  // namespace ridgeline
