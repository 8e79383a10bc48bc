#include "studies/ranks/group.h"

#include <fmt/format.h>

#include <exception>
#include <thread>

#include "base/child_process.h"
#include "base/error.h"
#include "base/printable.h"
#include "dist/device_communicator.h"
#include "dist/local_ranks.h"
#include "dist/plugin_backend.h"
#include "dist/threads_backend.h"
#include "jit/cuda_libraries.h"
#include "measure/record_json.h"

namespace ridgeline {
namespace {

constexpr RankBackend kBackends[] = {
    {"threads", "threads of one process, by our own sums"},
    {"gloo", "processes over TCP, by Gloo"},
    {"openmpi", "processes of mpirun, by Open MPI"},
    {"mpich", "processes of mpiexec.hydra, by MPICH"},
    {"nccl", "GPUs, one for each rank, by NCCL; of ddp"},
};

constexpr size_t kMostAnswer = size_t{64} << 20;

// Reads a rank's answer from a line; returns false if a library printed the line.
bool take_line(const std::string& line, Record& record) {
  const std::optional<Json> json = Json::try_parse(line);
  if (!json || !json->is_object()) return false;
  take_results(record_from_json(*json), record);
  return true;
}

class ThreadRanks final : public RankGroup {
 public:
  ThreadRanks(int ranks, const RankGroupOptions& options) : ranks_(ranks), options_(options) {}

  void run(const Json& request, Record& record) override {
    ThreadGroup group(ranks_);
    std::vector<std::unique_ptr<Communicator>> communicators;
    for (int rank = 0; rank < ranks_; ++rank) communicators.push_back(group.communicator(rank));
    std::vector<std::exception_ptr> failures(static_cast<size_t>(ranks_));
    const RankTask& task = find_task(request);
    Record answer;
    const auto one = [&](size_t rank) {
      try {
        Record mine = task.run(*communicators[rank], request, options_.interrupted);
        if (rank == 0) answer = std::move(mine);
      } catch (...) {
        failures[rank] = std::current_exception();
      }
      communicators[rank].reset();  // ends the waits of other ranks for it
    };
    std::vector<std::thread> threads;
    for (size_t rank = 1; rank < communicators.size(); ++rank) threads.emplace_back(one, rank);
    one(0);
    for (std::thread& thread : threads) thread.join();
    if (const std::exception_ptr cause = cause_of(failures)) std::rethrow_exception(cause);
    take_results(std::move(answer), record);
  }

 private:
  int ranks_;
  RankGroupOptions options_;
};

std::vector<std::string> rank_command() {
  return {std::filesystem::read_symlink("/proc/self/exe").string(), kRankCommand};
}

class OwnProcesses final : public RankGroup {
 public:
  OwnProcesses(int ranks, const RankGroupOptions& options)
      : ranks_({.ranks = ranks, .words = rank_command()}), options_(options) {}

  void run(const Json& request, Record& record) override {
    ranks_.write_line(request.dump());
    while (true) {
      const std::optional<std::string> line = ranks_.read_line({.seconds = options_.time_limit_s,
                                                                .interrupted = options_.interrupted,
                                                                .most_bytes = kMostAnswer});
      if (!line) throw Interrupted();
      if (take_line(*line, record)) return;
    }
  }

 private:
  LocalRanks ranks_;
  RankGroupOptions options_;
};

std::vector<std::string> mpi_command(const std::string& backend, int ranks) {
  std::vector<std::string> words;
  if (backend == "openmpi")
    // Allows more ranks than cores, and root, which is common in containers.
    words = {find_program("mpirun.openmpi").string(), "--oversubscribe", "--allow-run-as-root"};
  else
    words = {find_program("mpiexec.hydra").string()};
  if (words[0].empty()) words[0] = find_program("mpirun").string();
  words.insert(words.end(), {"-n", fmt::format("{}", ranks)});
  for (const std::string& word : rank_command()) words.push_back(word);
  return words;
}

// Ranks under an MPI launcher, whose stdin and stdout are those of rank 0.
class MpiProcesses final : public RankGroup {
 public:
  MpiProcesses(const std::string& backend, int ranks, const RankGroupOptions& options)
      : name_(backend), launcher_(mpi_command(backend, ranks)), options_(options) {}

  ~MpiProcesses() override { launcher_.end(5); }

  void run(const Json& request, Record& record) override {
    if (!launcher_.write_line(request.dump())) lost();
    while (true) {
      const ChildProcess::Reply reply = launcher_.read_line({.seconds = options_.time_limit_s,
                                                             .interrupted = options_.interrupted,
                                                             .most_bytes = kMostAnswer});
      if (reply.outcome == ChildProcess::Outcome::interrupted) throw Interrupted();
      if (reply.outcome != ChildProcess::Outcome::line) lost();
      if (take_line(reply.line, record)) return;
    }
  }

 private:
  [[noreturn]] void lost() {
    const std::string how = launcher_.end(5);
    throw Error(ErrorKind::environment, fmt::format("the ranks of {} ended with {}: {}", name_, how,
                                                    printable(launcher_.last_errors(), 600)));
  }

  std::string name_;
  ChildProcess launcher_;
  RankGroupOptions options_;
};

class LaunchedProcesses final : public RankGroup {
 public:
  LaunchedProcesses(World& world, const RankGroupOptions& options)
      : ranks_(world), options_(options) {}

  ~LaunchedProcesses() override {
    try {
      ranks_.stop();
    } catch (const Error&) {
      // The run is lost, and the watch reports it.
    }
  }

  void run(const Json& request, Record& record) override {
    take_results(ranks_.ask(request, options_.interrupted), record);
  }

 private:
  RankWorld ranks_;
  RankGroupOptions options_;
};

}  // namespace

std::exception_ptr cause_of(std::span<const std::exception_ptr> failures) {
  std::exception_ptr first;
  for (const std::exception_ptr& failure : failures) {
    if (!failure) continue;
    if (!first) first = failure;
    try {
      std::rethrow_exception(failure);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::environment) return failure;
    } catch (...) {
      return failure;
    }
  }
  return first;
}

const Choices<RankBackend> kRankBackends{"a backend", kBackends};

std::string host_backend(const std::string& backend, const LaunchedRank* launched) {
  if (backend != kNcclBackend) return backend;
  if (!launched) return "threads";
  for (const PluginFacts& plugin : plugin_list())
    if (plugin.launcher == launched->launcher) return std::string(plugin.name);
  return "gloo";
}

std::string missing_backend(const std::string& backend, const LaunchedRank* launched) {
  if (backend == kNcclBackend) {
    const CudaLibrary& nccl = cuda_library("nccl");
    if (!nccl) return fmt::format("NCCL was not found: {}", nccl.how_to_get);
    return missing_backend(host_backend(backend, launched), launched);
  }
  if (backend == "threads")
    return launched ? fmt::format("threads are ranks of one process, and {} has started {}",
                                  launched->launcher, launched->size)
                    : std::string();
  const PluginFacts& plugin = find_plugin(backend);
  if (plugin_file(backend).empty())
    return fmt::format("this build has no plugin for {}: {}", backend, plugin.how_to_get);
  if (plugin.launcher.empty()) return {};
  if (launched)
    return launched->launcher == plugin.launcher || launched->launcher == "srun"
               ? std::string()
               : fmt::format("{} has started the ranks, and {} needs {}", launched->launcher,
                             backend, plugin.launcher);
  return mpi_command(backend, 2)[0].empty()
             ? fmt::format("no launcher of {} was found: {}", backend, plugin.how_to_get)
             : std::string();
}

std::unique_ptr<RankGroup> make_rank_group(const std::string& backend, int ranks,
                                           const RankGroupOptions& options) {
  if (const std::string why = missing_backend(backend, nullptr); !why.empty())
    throw Error(ErrorKind::unsupported, why);
  if (host_backend(backend, nullptr) == "threads")
    return std::make_unique<ThreadRanks>(ranks, options);
  if (find_plugin(backend).launcher.empty()) return std::make_unique<OwnProcesses>(ranks, options);
  return std::make_unique<MpiProcesses>(backend, ranks, options);
}

std::unique_ptr<RankGroup> make_rank_group(World& world, const RankGroupOptions& options) {
  return std::make_unique<LaunchedProcesses>(world, options);
}

RankGroups::RankGroups(World* world, RankGroupOptions options)
    : world_(world), options_(std::move(options)) {
  if (world_) group_ = make_rank_group(*world_, options_);
}

void RankGroups::run(const Json& request, const std::string& backend, int ranks, Record& record) {
  const LaunchedRank* launched = world_ ? &world_->launched() : nullptr;
  if (const std::string why = missing_backend(backend, launched); !why.empty())
    throw Error(ErrorKind::unsupported, why);
  const std::string wanted = fmt::format("{} {}", backend, ranks);
  if (!world_ && (!group_ || group_name_ != wanted)) {
    group_.reset();
    group_ = make_rank_group(backend, ranks, options_);
    group_name_ = wanted;
  }
  try {
    group_->run(request, record);
  } catch (...) {
    if (!world_) group_.reset();  // its ranks are out of step, or gone
    throw;
  }
}

}  // namespace ridgeline
