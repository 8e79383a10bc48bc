// Collectives over sizes, ranks and backends, by ranks that the study starts itself or that a
// launcher has started with it.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/error.h"
#include "dist/plugin_backend.h"
#include "studies/comm/row.h"
#include "studies/comm/tables.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

class Comm final : public Study {
 public:
  Comm() {
    shared.protocol = {.warmups = 5, .iterations = 20, .time_budget = "1s"};
    shared.device.device = "cpu";  // buffers are in the host's memory
  }

  void declare(Flags& flags) override {
    flags.add("--collective", &collectives_,
              "all-reduce, reduce-scatter, all-gather, broadcast, or all",
              {.shows_default = true, .choices = names_of(collective_kinds())});
    flags.add("--size", &sizes_, "bytes of each rank's whole buffer", {.shows_default = true});
    flags.add("--ranks", &ranks_,
              "how many; a launcher (torchrun, mpirun, mpiexec, srun) decides for itself",
              {.shows_default = true, .given = &gave_ranks_});
    flags.add("--backend", &backends_,
              "threads, gloo, openmpi, mpich, or mpi for those of the two (default: all that are "
              "here)",
              {.choices = names_of(comm_backends())});
    add_dtypes(flags, &dtypes_).rules.shows_default = true;
    add_protocol_flags(flags, &shared.protocol);
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared,
                    {.list = "collectives and backends",
                     .no_verify = "do not compare results with exact sums"});
  }

  std::string list() const override {
    const std::optional<LaunchedRank> launched = launcher();
    std::string text = "collectives:\n" + listed(collective_kinds(), 15) + "backends:\n";
    for (const CommBackend& backend : comm_backends()) {
      const std::string why =
          missing_backend(std::string(backend.name), launched ? &*launched : nullptr);
      text += listed(backend.name, why.empty()
                                       ? std::string(backend.summary)
                                       : fmt::format("{} (not here: {})", backend.summary, why));
    }
    return text + "dtypes:\n  fp32, bf16, fp16\n";
  }

  // Ranks other than 0 do what rank 0 asks of them.
  std::optional<int> run_instead(StudyRun& run) override {
    launched_ = launcher();
    if (!launched_ || launched_->rank == 0) return std::nullopt;
    if (shared.dry_run) return 0;
    World world(*launched_, world_options(run));
    CommWorld(world).serve();
    return 0;
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    const std::vector<CommWorkload> workloads = expand_matrix(matrix());
    if (launched_ && !shared.dry_run) world_.emplace(*launched_, world_options(run));
    runner_.emplace(run.device, row_options<CommOptions>(run, shared), world_ ? &*world_ : nullptr);
    return rows_of(workloads, *runner_, run, [&](const CommWorkload& workload) {
      return fmt::format(
          "ridgeline comm{} --backend {} --collective {} --ranks {} --size {} --dtype {}",
          shared_words(run, shared), workload.backend, name(workload.collective), workload.ranks,
          workload.bytes.count, info(workload.dtype).name);
    });
  }

  bool set_up(const StudySetup& setup) override {
    backends_ = {"threads"};  // needs nothing that may not be here
    sizes_ = {"1MB", "10MB", "100MB"};
    ranks_ = {2};
    return setup.attempt == 0;
  }

 private:
  static std::optional<LaunchedRank> launcher() {
    const std::optional<LaunchedRank> found = launched_rank();
    return found && found->size > 1 ? found : std::nullopt;  // one alone starts ranks itself
  }

  WorldOptions world_options(const StudyRun& run) const {
    return {.build = fmt::format("{} {}", run.blank.build.version, run.blank.build.git_commit),
            .configuration = fmt::format("comm --collective {} --size {} --backend {} --dtype {}{}",
                                         fmt::join(collectives_, ","), fmt::join(sizes_, ","),
                                         fmt::join(backends_, ","), fmt::join(dtypes_, ","),
                                         to_command(run.protocol))};
  }

  CommMatrix matrix() const {
    CommMatrix matrix{.backends = {},
                      .collectives = collectives_,
                      .sizes = sizes_,
                      .dtypes = dtypes_,
                      .ranks = ranks_};
    const LaunchedRank* launched = launched_ ? &*launched_ : nullptr;
    const auto is_here = [&](const std::string& backend) {
      return missing_backend(backend, launched).empty();
    };
    if (collectives_ == Words{"all"}) matrix.collectives = names_of(collective_kinds());
    for (const std::string& backend : backends_.empty() ? names_of(comm_backends()) : backends_) {
      if (backend == "mpi") {
        for (const char* mpi : {"openmpi", "mpich"})
          if (is_here(mpi)) matrix.backends.emplace_back(mpi);
      } else if (!backends_.empty() || is_here(backend)) {
        matrix.backends.push_back(backend);
      }
    }
    if (matrix.backends.empty())
      throw Error(ErrorKind::unsupported,
                  launched ? fmt::format("no backend serves ranks of {}", launched->launcher)
                           : "no MPI is here",
                  "`ridgeline comm --list` says how to get one");
    if (launched != nullptr) {
      if (gave_ranks_ && ranks_ != std::vector<int64_t>{launched->size})
        throw Error(ErrorKind::usage,
                    fmt::format("--ranks {} was given, and {} has started {} ranks",
                                fmt::join(ranks_, ","), launched->launcher, launched->size),
                    "leave --ranks to the launcher");
      matrix.ranks = {launched->size};
    }
    return matrix;
  }

  Words collectives_ = {"all-reduce"}, sizes_ = {"1MB", "10MB", "100MB", "1GB"}, backends_;
  Words dtypes_ = {"fp32"};
  std::vector<int64_t> ranks_ = {2, 4, 6};
  bool gave_ranks_ = false;
  std::optional<LaunchedRank> launched_;
  std::optional<World> world_;  // outlives the runner
  std::optional<CommRunner> runner_;
};

}  // namespace

StudyInfo comm_study() {
  return {.name = "comm",
          .summary = "collectives over sizes, ranks and backends: time, bandwidth, latency",
          .examples =
              "Examples:\n"
              "  ridgeline comm                                      all-reduce by every backend "
              "that is here\n"
              "  ridgeline comm --collective all --ranks 4 --size 1MB 16MB --backend gloo,mpi\n"
              "  mpirun -n 4 ridgeline comm --backend openmpi        ranks of a launcher, on one "
              "host or several\n"
              "  torchrun --no-python --nproc-per-node 2 ridgeline comm --backend gloo",
          .make = make_study<Comm>,
          .csv = comm_csv,
          .title = "Collectives",
          .table = comm_summary,
          .notes = comm_notes,
          .sections = {comm_section},
          .takes_turns = false,
          .turn = 11};
}

}  // namespace ridgeline
