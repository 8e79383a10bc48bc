#include "graph/scope.h"

#include <algorithm>

namespace ridgeline {
namespace {

// Where the first part that is a number begins and ends, with the dot before it; both npos: none.
struct NumberedPart {
  size_t begin = std::string_view::npos, end = std::string_view::npos;
};

NumberedPart numbered_part(std::string_view path) {
  for (size_t dot = path.find('.'); dot != std::string_view::npos; dot = path.find('.', dot + 1)) {
    const size_t end = std::min(path.find('.', dot + 1), path.size());
    const std::string_view part = path.substr(dot + 1, end - dot - 1);
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (!part.empty() && std::ranges::all_of(part, is_digit)) return {dot, end};
  }
  return {};
}

}  // namespace

ScopeGuard::ScopeGuard(Graph& graph, std::string_view name)
    : graph_(graph), before_(graph.current_scope()) {
  if (before_.empty())
    graph_.enter_scope(name);
  else if (scope_leaf(before_) != name)
    graph_.enter_scope(before_ + "." + std::string(name));
}

std::vector<std::string> scope_parts(std::string_view path) {
  std::vector<std::string> parts;
  for (size_t at = 0; at < path.size();) {
    const size_t end = std::min(path.find('.', at), path.size());
    parts.emplace_back(path.substr(at, end - at));
    at = end + 1;
  }
  return parts;
}

std::string_view scope_leaf(std::string_view path) {
  return path.substr(path.rfind('.') + 1);  // npos + 1: the whole
}

std::string_view common_scope(std::string_view a, std::string_view b) {
  size_t common = 0;
  for (size_t i = 0;; ++i) {
    const bool a_ends = i == a.size() || a[i] == '.';
    const bool b_ends = i == b.size() || b[i] == '.';
    if (a_ends && b_ends) common = i;
    if (i == a.size() || i == b.size() || a[i] != b[i]) return a.substr(0, common);
  }
}

std::string_view layer_scope(std::string_view path) {
  const NumberedPart part = numbered_part(path);
  return part.end == std::string_view::npos ? std::string_view() : path.substr(0, part.end);
}

std::string scope_of_any_layer(std::string_view path) {
  const NumberedPart part = numbered_part(path);
  if (part.end == std::string_view::npos) return std::string(path);
  return std::string(path.substr(0, part.begin)) + ".*" + std::string(path.substr(part.end));
}

}  // namespace ridgeline
