#include "dist/plugin_backend.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "base/closest.h"
#include "base/environment.h"
#include "base/error.h"
#include "dist/plugin_abi.h"
#include "dist/reduce.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr PluginFacts kPlugins[] = {
    {"gloo", "processes over TCP, by Gloo",
     "Debian: apt install libgloo-dev, then configure and build again", ""},
    {"openmpi", "processes of mpirun, by Open MPI",
     "Debian: apt install openmpi-bin libopenmpi-dev, then configure and build again", "mpirun"},
    {"mpich", "processes of mpiexec.hydra, by MPICH",
     "Debian: apt install mpich libmpich-dev, then configure and build again", "mpiexec"},
};

// Bytes of each rank's shard that are exchanged at a time, so that the receive buffer stays small
// and in cache.
constexpr int64_t kPieceBytes = 1 << 20;

class PluginBackend final : public HostBackend {
 public:
  PluginBackend(std::string_view name, const PluginOptions& options, RidgelinePluginOpen* open)
      : prefix_(options.prefix), store_(options.store), before_failing_(options.before_failing) {
    const RidgelinePluginOptions plain{.abi = RIDGELINE_PLUGIN_ABI,
                                       .rank = options.rank,
                                       .size = options.size,
                                       .local_address = options.local_address.c_str(),
                                       .timeout_s = options.timeout_s,
                                       .store = {.context = this, .set = set_key, .get = get_key}};
    char error[512] = {};
    if (open(&plain, &calls_, error, sizeof error) != 0)
      throw Error(ErrorKind::environment, fmt::format("{} cannot be opened: {}", name, error));
    facts_ = {std::string(name), calls_.library, options.rank, options.size};
    if (calls_.abi != RIDGELINE_PLUGIN_ABI || calls_.rank != options.rank ||
        calls_.size != options.size) {
      const std::string text =
          fmt::format("the launcher says rank {} of {}, and {} says rank {} of {}", options.rank,
                      options.size, calls_.library, calls_.rank, calls_.size);
      calls_.close(calls_.state);
      throw Error(ErrorKind::environment, text,
                  "start the ranks by the launcher of that library: mpirun for Open MPI, "
                  "mpiexec.hydra for MPICH");
    }
  }

  ~PluginBackend() override { calls_.close(calls_.state); }

  const CommunicatorFacts& facts() const override { return facts_; }

  void run(const Collective& what) override {
    switch (what.kind) {
      case CollectiveKind::barrier:
        return check(calls_.barrier(calls_.state), what);
      case CollectiveKind::broadcast:
        if (facts_.rank == what.root && what.in != nullptr && what.in != what.out)
          std::memcpy(what.out, what.in, static_cast<size_t>(what.bytes()));
        return check(calls_.broadcast(calls_.state, what.out, what.bytes(), what.root), what);
      case CollectiveKind::all_gather:
        return gather(what, what.in);
      case CollectiveKind::reduce_scatter:
        if (is_16_bit(what.dtype) || calls_.reduce_scatter_f32 == nullptr)
          return exchange_and_sum(what, what.out);
        return check(
            calls_.reduce_scatter_f32(calls_.state, static_cast<const float*>(what.in),
                                      static_cast<float*>(what.out), shards(what.count, 1).data()),
            what);
      case CollectiveKind::all_reduce:
        if (!is_16_bit(what.dtype))
          return check(calls_.all_reduce_f32(calls_.state, static_cast<const float*>(what.in),
                                             static_cast<float*>(what.out), what.count),
                       what);
        // Host libraries round 16-bit sums after every addition, if they support them at all. This
        // sends as many bytes as a ring and rounds once.
        const Shard mine = shard_of(what.count, facts_.rank, facts_.size);
        char* shard = static_cast<char*>(what.out) + mine.begin * info(what.dtype).size;
        exchange_and_sum(what, shard);
        gather(what, shard);
    }
  }

 private:
  static int set_key(void* self, const char* key, const void* value, size_t bytes) {
    auto* backend = static_cast<PluginBackend*>(self);
    try {
      backend->store_->set(backend->prefix_ + key, {static_cast<const char*>(value), bytes});
      return 0;
    } catch (const std::exception&) {
      return 1;
    }
  }
  static long get_key(void* self, const char* key, void* value, size_t capacity, double timeout_s) {
    auto* backend = static_cast<PluginBackend*>(self);
    try {
      const std::string found = backend->store_->get(backend->prefix_ + key, timeout_s);
      std::memcpy(value, found.data(), std::min(capacity, found.size()));
      return static_cast<long>(found.size());
    } catch (const std::exception&) {
      return -1;
    }
  }

  void check(int outcome, const Collective& what) const {
    if (outcome == 0) return;
    if (before_failing_) before_failing_();
    throw Error(ErrorKind::environment,
                fmt::format("{} failed on rank {} in {}: {}", calls_.library, facts_.rank,
                            describe(what), calls_.last_error(calls_.state)));
  }

  std::vector<int64_t> shards(int64_t count, int unit) const {
    std::vector<int64_t> each;
    for (int rank = 0; rank < facts_.size; ++rank)
      each.push_back(shard_of(count, rank, facts_.size).count * unit);
    return each;
  }

  void gather(const Collective& what, const void* in) {
    check(calls_.all_gather(calls_.state, in, what.out,
                            shards(what.count, info(what.dtype).size).data()),
          what);
  }

  // Each rank receives its shard of every buffer and adds them in rank order.
  void exchange_and_sum(const Collective& what, void* out) {
    const int size = info(what.dtype).size, ranks = facts_.size;
    const int64_t piece = kPieceBytes / size;
    const int64_t longest = shard_of(what.count, 0, ranks).count;
    const Shard mine = shard_of(what.count, facts_.rank, ranks);
    received_.resize(static_cast<size_t>(ranks * std::min(piece, longest) * size));
    const char* in = static_cast<const char*>(what.in);
    for (int64_t begin = 0; begin < longest; begin += piece) {
      const auto length_of = [&](const Shard& shard) {
        return std::clamp<int64_t>(shard.count - begin, 0, piece);
      };
      std::vector<const void*> send, parts;
      std::vector<void*> receive;
      std::vector<int64_t> send_bytes, receive_bytes;
      for (int rank = 0; rank < ranks; ++rank) {
        const Shard theirs = shard_of(what.count, rank, ranks);
        send.push_back(in + (theirs.begin + begin) * size);
        send_bytes.push_back(length_of(theirs) * size);
        receive.push_back(received_.data() + rank * std::min(piece, longest) * size);
        receive_bytes.push_back(length_of(mine) * size);
        parts.push_back(rank == facts_.rank ? in + (mine.begin + begin) * size
                                            : static_cast<const char*>(receive.back()));
      }
      check(calls_.exchange(calls_.state, send.data(), send_bytes.data(), receive.data(),
                            receive_bytes.data()),
            what);
      void* const to[] = {static_cast<char*>(out) + begin * size};
      sum_in_rank_order(what.dtype, parts, to, length_of(mine));
    }
  }

  std::string prefix_;
  StoreClient* store_;
  std::function<void()> before_failing_;
  RidgelinePluginCalls calls_ = {};
  CommunicatorFacts facts_;
  std::vector<char> received_;
};

}  // namespace

std::span<const PluginFacts> plugin_list() {
  return kPlugins;
}

const PluginFacts& find_plugin(std::string_view name) {
  for (const PluginFacts& plugin : kPlugins)
    if (plugin.name == name) return plugin;
  throw unknown_name(name, "a backend of several processes", kPlugins);
}

fs::path plugin_file(std::string_view name) {
  const std::string file = fmt::format("libridgeline_{}.so", name);
  std::vector<fs::path> folders;
  if (const std::string given = environment("RIDGELINE_PLUGINS"); !given.empty()) {
    folders = {given};
  } else {
    std::error_code problem;
    const fs::path program = fs::read_symlink("/proc/self/exe", problem).parent_path();
    // Tests are in a folder below that of the program.
    folders = {program, program / ".." / "lib" / "ridgeline", program / ".."};
  }
  for (const fs::path& folder : folders) {
    std::error_code problem;
    if (fs::is_regular_file(folder / file, problem)) return (folder / file).lexically_normal();
  }
  return {};
}

std::unique_ptr<HostBackend> open_plugin_backend(std::string_view name,
                                                 const PluginOptions& options) {
  const PluginFacts& plugin = find_plugin(name);
  const fs::path file = plugin_file(name);
  if (file.empty())
    throw Error(ErrorKind::unsupported,
                fmt::format("this build has no plugin for {} (libridgeline_{}.so)", name, name),
                std::string(plugin.how_to_get));
  // MPI loads components that look up its symbols in the global scope.
  void* handle = dlopen(file.c_str(), RTLD_NOW | (plugin.launcher.empty() ? 0 : RTLD_GLOBAL));
  const char* why = handle == nullptr ? dlerror() : "it has no entry point";
  auto* open = handle == nullptr
                   ? nullptr
                   : reinterpret_cast<RidgelinePluginOpen*>(dlsym(handle, "ridgeline_plugin_open"));
  if (open == nullptr)
    throw Error(ErrorKind::unsupported, fmt::format("cannot open '{}': {}", file.string(), why),
                std::string(plugin.how_to_get));
  return std::make_unique<PluginBackend>(name, options, open);
}

}  // namespace ridgeline
