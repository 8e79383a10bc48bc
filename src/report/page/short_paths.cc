#include "report/page/short_paths.h"

#include <algorithm>

namespace ridgeline {

std::vector<std::string> short_paths(const std::vector<std::string>& paths) {
  if (paths.empty()) return {};
  // The last part of a path is never shared.
  const auto folders_end = [](const std::string& path) {
    const size_t slash = path.find_last_of('/', path.size() < 2 ? 0 : path.size() - 2);
    return slash == std::string::npos ? size_t{0} : slash + 1;
  };
  size_t shared = folders_end(paths.front());
  for (const std::string& path : paths) {
    const size_t most = std::min(shared, folders_end(path));
    const auto differ = std::mismatch(
        path.begin(), path.begin() + static_cast<std::ptrdiff_t>(most), paths.front().begin());
    const auto same = static_cast<size_t>(differ.first - path.begin());
    const size_t slash = same == 0 ? std::string::npos : path.find_last_of('/', same - 1);
    shared = slash == std::string::npos ? 0 : slash + 1;
  }
  std::vector<std::string> out;
  for (const std::string& path : paths) out.push_back(path.substr(shared));
  return out;
}

}  // namespace ridgeline
