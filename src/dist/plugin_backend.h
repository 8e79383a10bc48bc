// Host backends of MPI and Gloo, in plugins that are opened at run time, so that the program does
// not link to these libraries.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "dist/host_communicator.h"
#include "dist/store.h"

namespace ridgeline {

struct PluginFacts {
  std::string_view name;  // of the backend: "gloo"
  std::string_view summary;
  std::string_view how_to_get;  // "apt install libgloo-dev, then build again"
  std::string_view launcher;    // required LaunchedRank::launcher; "": any
};
std::span<const PluginFacts> plugin_list();
const PluginFacts& find_plugin(std::string_view name);  // throws a usage error

// Finds the file of a plugin: in $RIDGELINE_PLUGINS if set, else in the program's folder or in its
// installation; empty: not found.
std::filesystem::path plugin_file(std::string_view name);

struct PluginOptions {
  int rank = 0, size = 1;
  std::string local_address = {};             // at which other ranks reach this one
  double timeout_s = 600;                     // for one operation
  std::string prefix;                         // of its keys in the store
  StoreClient* store;                         // must outlive the backend
  std::function<void()> before_failing = {};  // called before a failed collective throws
};
// Throws an unsupported error if the plugin is missing, and an environment error if its library
// fails or reports another rank or size than the launcher.
std::unique_ptr<HostBackend> open_plugin_backend(std::string_view name,
                                                 const PluginOptions& options);

}  // namespace ridgeline
