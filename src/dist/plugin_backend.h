// MPI and Gloo as backends: plugins that are opened at run time, so that the program needs none of
// them.
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
  std::string_view launcher;    // that has to start its ranks, as LaunchedRank has it; "": any
};
std::span<const PluginFacts> plugin_list();
const PluginFacts& find_plugin(std::string_view name);  // throws a usage error

// The file of a plugin, in $RIDGELINE_PLUGINS, beside the program or where it is installed; empty:
// there is none.
std::filesystem::path plugin_file(std::string_view name);

struct PluginOptions {
  int rank = 0, size = 1;
  std::string local_address = {};             // of this rank, by which the others reach it
  double timeout_s = 600;                     // for one operation
  std::string prefix;                         // of its keys in the store
  StoreClient* store;                         // must outlive the backend
  std::function<void()> before_failing = {};  // called when a collective has failed
};
// Throws an unsupported error where the plugin is not there, an environment error where its library
// refuses or counts the ranks differently than the launcher.
std::unique_ptr<HostBackend> open_plugin_backend(std::string_view name,
                                                 const PluginOptions& options);

}  // namespace ridgeline
