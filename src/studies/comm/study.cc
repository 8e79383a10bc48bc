// The comm study: collectives over sizes, ranks and backends, on ranks that the study or a launcher
// starts.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "studies/comm/row.h"
#include "studies/comm/tables.h"
#include "studies/ranks/flags.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

class Comm final : public Study {
 public:
  Comm() {
    shared.protocol = {.warmups = 5, .iterations = 20, .time_budget = "1s"};
    shared.device.device = "cpu";  // buffers are in host memory
  }

  void declare(Flags& flags) override {
    Words collectives = names_of(collective_kinds());
    collectives.emplace_back("all");
    flags.add("--collective", &matrix_.collectives,
              "all-reduce, reduce-scatter, all-gather, broadcast, or all",
              {.shows_default = true, .choices = std::move(collectives)});
    flags.add("--size", &matrix_.sizes, "bytes of each rank's whole buffer",
              {.shows_default = true});
    ranks_.declare(flags);
    add_dtypes(flags, &matrix_.dtypes).rules.shows_default = true;
    add_protocol_flags(flags, &shared.protocol);
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared,
                    {.list = "collectives and backends",
                     .no_verify = "do not compare results with exact sums"});
  }

  std::string list() const override {
    const std::string text =
        "collectives:\n" + listed(collective_kinds(), 15) + ranks_.list_backends();
    return text + "dtypes:\n  fp32, bf16, fp16\n";
  }

  std::optional<int> run_instead(StudyRun& run) override {
    return ranks_.serve(run, configuration(run), shared.dry_run);
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    const std::vector<CommWorkload> workloads = expand_matrix(matrix());
    World* world = shared.dry_run ? nullptr : ranks_.join(run, configuration(run));
    runner_.emplace(run.device, row_options(run, shared), world);
    return rows_of(workloads, *runner_, run, [&](const CommWorkload& workload) {
      return fmt::format(
          "ridgeline comm{} --backend {} --collective {} --ranks {} --size {} --dtype {}",
          shared_words(run, shared), workload.backend, name(workload.collective), workload.ranks,
          workload.bytes.count, info(workload.dtype).name);
    });
  }

  bool set_up(const StudySetup& setup) override {
    ranks_.asked_backends = {"threads"};  // the one backend that is always available
    matrix_.sizes = {"1MB", "10MB", "100MB"};
    ranks_.set_ranks({2});
    return setup.attempt == 0;
  }

 private:
  std::string configuration(const StudyRun& run) const {
    return fmt::format("comm --collective {} --size {} --backend {} --dtype {}{}",
                       fmt::join(matrix_.collectives, ","), fmt::join(matrix_.sizes, ","),
                       fmt::join(ranks_.asked_backends, ","), fmt::join(matrix_.dtypes, ","),
                       to_command(run.protocol));
  }

  CommMatrix matrix() const {
    CommMatrix matrix = matrix_;
    matrix.backends = ranks_.backends(nullptr);
    matrix.ranks = ranks_.ranks();
    if (matrix.collectives == Words{"all"}) matrix.collectives = names_of(collective_kinds());
    return matrix;
  }

  CommMatrix matrix_ = {
      .collectives = {"all-reduce"}, .sizes = {"1MB", "10MB", "100MB", "1GB"}, .dtypes = {"fp32"}};
  RankFlags ranks_{{2, 4, 6}};  // outlives the runner
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
          .notes = with_verdicts<comm_notes>,
          .in_reports = "Collectives",
          .sections = {comm_section},
          .takes_turns = false,
          .turn = 11};
}

}  // namespace ridgeline
