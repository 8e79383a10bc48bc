// Shortens paths for a page: removes the folders that all of them share, which belong to the
// machine and not to the results.
#pragma once

#include <string>
#include <vector>

namespace ridgeline {

// {"/a/b/x/1.jsonl", "/a/b/y/1.jsonl"} -> {"x/1.jsonl", "y/1.jsonl"}; one path alone keeps its last
// part. Equal paths stay equal.
std::vector<std::string> short_paths(const std::vector<std::string>& paths);

}  // namespace ridgeline
