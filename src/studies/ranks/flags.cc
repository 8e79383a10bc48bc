#include "studies/ranks/flags.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "dist/device_communicator.h"

namespace ridgeline {
namespace {

std::optional<LaunchedRank> launcher_of_several() {
  const std::optional<LaunchedRank> found = launched_rank();
  return found && found->size > 1 ? found : std::nullopt;  // a single process starts ranks itself
}

WorldOptions world_options(const StudyRun& run, const std::string& configuration) {
  return {.build = fmt::format("{} {}", run.blank.build.version, run.blank.build.git_commit),
          .configuration = configuration};
}

}  // namespace

void RankFlags::declare(Flags& flags) {
  flags.add("--ranks", &ranks_,
            "how many; a launcher (torchrun, mpirun, mpiexec, srun) decides for itself",
            {.shows_default = true, .given = &gave_ranks_});
  Words backends = names_of(kRankBackends);
  backends.emplace_back("mpi");
  flags.add("--backend", &asked_backends,
            "threads, gloo, openmpi, mpich, nccl, or mpi for those of the two (default: all that "
            "are here)",
            {.choices = std::move(backends)});
}

std::string RankFlags::list_backends() const {
  const std::optional<LaunchedRank> launched = launcher_of_several();
  std::string text = "backends:\n";
  for (const RankBackend& backend : kRankBackends) {
    const std::string why =
        missing_backend(std::string(backend.name), launched ? &*launched : nullptr);
    text +=
        listed(backend.name, why.empty() ? std::string(backend.summary)
                                         : fmt::format("{} (not here: {})", backend.summary, why));
  }
  return text;
}

std::optional<int> RankFlags::serve(const StudyRun& run, const std::string& configuration,
                                    bool dry_run) {
  launched_ = launcher_of_several();
  if (!launched_ || launched_->rank == 0) return std::nullopt;
  if (dry_run) return 0;
  World world(*launched_, world_options(run, configuration));
  RankWorld(world).serve();
  return 0;
}

World* RankFlags::join(const StudyRun& run, const std::string& configuration) {
  if (launched_) world_.emplace(*launched_, world_options(run, configuration));
  return world_ ? &*world_ : nullptr;
}

std::vector<std::string> RankFlags::backends(Device* device) const {
  const LaunchedRank* launched = launched_ ? &*launched_ : nullptr;
  const auto is_here = [&](const std::string& backend) {
    return missing_backend(backend, launched).empty();
  };
  std::vector<std::string> found;
  for (const std::string& backend :
       asked_backends.empty() ? names_of(kRankBackends) : asked_backends) {
    if (backend == "mpi") {
      for (const char* mpi : {"openmpi", "mpich"})
        if (is_here(mpi)) found.emplace_back(mpi);
    } else if (!asked_backends.empty() ||
               (is_here(backend) &&
                (backend != kNcclBackend || (device && device->communication_queue())))) {
      found.push_back(backend);
    }
  }
  if (found.empty())
    throw Error(ErrorKind::unsupported,
                launched ? fmt::format("no backend serves ranks of {}", launched->launcher)
                         : "no MPI is here",
                "`ridgeline comm --list` says how to get one");
  return found;
}

std::vector<int64_t> RankFlags::ranks() const {
  if (!launched_) return ranks_;
  if (gave_ranks_ && ranks_ != std::vector<int64_t>{launched_->size})
    throw Error(ErrorKind::usage,
                fmt::format("--ranks {} was given, and {} has started {} ranks",
                            fmt::join(ranks_, ","), launched_->launcher, launched_->size),
                "leave --ranks to the launcher");
  return {launched_->size};
}

}  // namespace ridgeline
