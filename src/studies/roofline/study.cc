// The roofline study: measured ceilings beside those of data sheets, and measured ops below them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <set>

#include "base/error.h"
#include "base/print.h"
#include "measure/read_results.h"
#include "measure/results_file.h"
#include "report/page/sections.h"
#include "report/terminal/problems.h"
#include "studies/cost/row.h"
#include "studies/cost/tables.h"
#include "studies/roofline/row.h"
#include "studies/roofline/tables.h"
#include "studies/stored_ceilings.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

// Reads the ops to be placed; records of ceilings are left out.
std::vector<Record> read_ops(const Words& paths) {
  std::vector<Record> records;
  for (const std::string& path : paths) {
    std::vector<Record> found = say_problems(read_results(path), path);
    std::move(found.begin(), found.end(), std::back_inserter(records));
  }
  if (!paths.empty() && records.empty())
    throw Error(ErrorKind::usage,
                fmt::format("no record in {} can be read", fmt::join(paths, ", ")),
                "give results files (.jsonl) of a study");
  std::erase_if(records, [](const Record& record) { return record.study == "roofline"; });
  return records;
}

void show_points(const std::vector<Record>& ops, const Roofline& roofline, bool plot,
                 const std::filesystem::path& csv) {
  const std::vector<RooflinePoint> points = place(ops, roofline);
  const Table table = roofline_points(points);
  write_table(csv, table);
  print("\n{}\n", to_terminal(table, csv));
  for (const RooflinePoint& point : points) print("  - {}\n", sentence(point));
  const auto unknown = std::count_if(points.begin(), points.end(), [](const RooflinePoint& point) {
    return !point.path_is_known;
  });
  if (unknown > 0)
    print(
        "  ({} passes are held against the ceiling of their dtype: their records, older ones or a "
        "peer's, do not say which arithmetic ran)\n",
        unknown);
  const auto has_place = [&](const Record& record) {
    return std::any_of(points.begin(), points.end(),
                       [&](const RooflinePoint& point) { return point.record == &record; });
  };
  if (const auto without = std::count_if(ops.begin(), ops.end(), std::not_fn(has_place));
      without > 0)
    print(
        "  ({} records have no place here: other machine, device or threads, not measured, or no "
        "ceiling of their arithmetic)\n",
        without);
  std::set<std::string> paths;
  for (const RooflinePoint& point : points)
    if (plot && paths.insert(point.path).second)
      print("\n{}", roofline_plot(roofline, point.path, points));
}

class CeilingProbes final : public Study {
 public:
  CeilingProbes() { shared.protocol = {.warmups = 0, .iterations = 100, .time_budget = "1s"}; }

  void declare(Flags& flags) override {
    flags.add("results", &results_, "results files (.jsonl) whose ops are placed on the roofline",
              {.splits = false});
    add_dtypes(flags, &dtypes_).help =
        "of the compute ceilings (default: fp32, bf16, fp16; on a GPU tf32 too)";
    flags.add("--size", &sizes_,
              "of the products (default: 1024 and 2048; on a GPU 4096 and 8192)");
    add_gpus(flags, &gpus_).help =
        "roofs of GPUs from their data sheets, with products, attention and a decoder layer on "
        "them; measures nothing";
    flags.at("--gpu").rules.excludes = {"results", "--stored", "--save-baseline", "--resume"};
    flags.add("--stored", &stored_,
              "use the ceilings in the results folder instead of measuring them",
              {.excludes = {"--save-baseline"}});
    flags.add("--settle-time", &settle_time_,
              "most seconds of load before a probe is measured; ends when the rate is steady",
              {.shows_default = true});
    add_protocol_flags(flags, &shared.protocol);
    flags.add("--no-plot", &no_plot_, "no plot in characters");
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared,
                    {.list = "the data sheets of GPUs with their ridge points", .no_verify = ""});
  }

  std::string list() const override { return to_terminal(gpu_spec_table()); }

  void check() override {
    ops_ = read_ops(results_);
    settle_s_ = parse_seconds(settle_time_);
    if (!gpus_.empty()) on_paper_ = paper_rows();
  }

  std::optional<int> run_instead(StudyRun& run) override {
    if (!gpus_.empty()) {
      show_on_paper(run);
      return 0;
    }
    if (!stored_ || shared.dry_run) return std::nullopt;
    const auto roofline = stored_ceilings(run.results_dir, run.device, run.blank.machine);
    if (!roofline)
      throw Error(ErrorKind::usage,
                  fmt::format("{} holds no ceilings of this device ({})", run.folder.string(),
                              run.device.description()),
                  "run without --stored to measure them");
    rows(run);
    show_ceilings(run, *roofline);
    print_paths(run);
    return 0;
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    study_.emplace(run.device,
                   RooflineStudyOptions{
                       .row = row_options(run, shared), .settle_s = settle_s_, .sizes = sizes_});
    const std::vector<CeilingProbe> probes = study_->probes(dtypes_of(run.device), run.blank);
    within_cache_ = std::ranges::any_of(probes, &CeilingProbe::within_cache);
    return rows_of(probes, *study_, run, [&](const CeilingProbe& probe) {
      return fmt::format("ridgeline roofline{} --settle-time {}{}{}", shared_words(run, shared),
                         settle_time_, probe.dtype.empty() ? "" : " --dtype " + probe.dtype,
                         probe.size > 0 ? fmt::format(" --size {}", probe.size) : "");
    });
  }

  void show(StudyRun& run, const std::vector<StudyRow>&,
            const std::vector<Record>& records) override {
    const std::vector<Roofline> all = rooflines(records);
    for (const Record& record : records)
      if (record.status != Status::ok)
        say("{} {}: {}", record.implementation, status_csv_word(record.status), record.error);
    if (!all.empty()) show_ceilings(run, all.front());
  }

  bool set_up(const StudySetup& setup) override {
    settle_time_ = setup.time_budget;
    no_plot_ = true;
    if (!setup.device.facts().is_gpu()) {
      dtypes_ = {"fp32", "bf16"};
      sizes_ = {1024};
    }
    return setup.attempt == 0;
  }

 private:
  Words dtypes_of(const Device& device) const {
    Words dtypes = dtypes_;
    if (dtypes.empty()) dtypes = {"fp32", "bf16", "fp16"};
    if (dtypes_.empty() && device.facts().is_gpu()) dtypes.insert(dtypes.begin() + 1, "tf32");
    for (const std::string& dtype : dtypes) parse_float_dtype(dtype);
    return dtypes;
  }

  std::vector<CostRow> paper_rows() const {
    CostMatrix matrix{
        .ops = {CostOp::gemm, CostOp::gemv, CostOp::attention, CostOp::mlp, CostOp::layer},
        .dtypes = parsed(dtypes_.empty() ? Words{"fp32", "bf16"} : dtypes_, parse_float_dtype),
        .models = {transformer_config("small")}};
    if (!sizes_.empty()) matrix.sizes = sizes_;
    return cost_rows(expand_matrix(matrix), data_sheets_of(gpus_), std::nullopt);
  }

  // Shows roofs of data sheets with the default workloads of the cost study. Their records go to a
  // separate file, so that those of measured ceilings remain.
  void show_on_paper(StudyRun& run) const {
    const auto outputs = check_output(shared.output);
    const CostStudy study(run.device, row_options(run, shared));
    std::vector<Record> records;
    for (const CostRow& row : on_paper_)
      if (auto record = study.run(row, study.describe(row, run.blank))) {
        record->command = fmt::format("ridgeline cost{}{} --seed {}", to_command(row),
                                      run.device_words, shared.seed);
        records.push_back(std::move(*record));
      }
    const std::filesystem::path csv = run.folder / "data_sheets.csv";
    print("Roofs of data sheets: dense peaks, nothing was measured\n\n{}\n{}\n",
          to_terminal(gpu_spec_table(parsed(gpus_, parse_gpu))),
          to_terminal(cost_times(records), csv));
    print_notes(cost_notes(records));
    if (shared.dry_run) return;
    const std::filesystem::path path = run.folder / "data_sheets.jsonl";
    ResultsFile file(path, ResultsFile::Use::move);
    for (const Record& record : records) file.append(record);
    write_table(csv, cost_csv(records));
    write_output(shared.output, records, cost_csv(records));
    print("\nRecords: {}   (`ridgeline report {}` draws the roofs)\nCSV:     {}\n", path.string(),
          path.string(), csv.string());
  }

  void show_ceilings(const StudyRun& run, const Roofline& roofline) const {
    if (within_cache_)
      say("the budget of {} keeps the streams of memory within the last cache, whose rate they "
          "show: raise --memory-budget",
          to_string(run.device.ledger().budget()));
    print("Roofline of {} ({})\n\n{}\n{}", roofline.title, run.device.description(),
          to_terminal(compute_ceilings(roofline), run.file("csv")),
          to_terminal(memory_ceilings(roofline), run.file("csv")));
    if (!ops_.empty()) show_points(ops_, roofline, !no_plot_, run.folder / "points.csv");
  }

  Words results_, dtypes_, gpus_;
  std::vector<CostRow> on_paper_;
  std::vector<int64_t> sizes_;
  std::string settle_time_ = "3s";
  double settle_s_ = 0;
  bool stored_ = false;
  bool no_plot_ = false;
  std::vector<Record> ops_;
  bool within_cache_ = false;
  std::optional<RooflineStudy> study_;
};

}  // namespace

StudyInfo roofline_study() {
  return {.name = "roofline",
          .summary =
              "measured ceilings, ridge points, and every measured op below them; roofs on paper",
          .examples =
              "Examples:\n"
              "  ridgeline roofline                                  the ceilings of this machine\n"
              "  ridgeline roofline --stored results/*/*.jsonl       what bounds everything "
              "measured here\n"
              "  ridgeline roofline --gpu A100,H100 --dtype bf16     the roofs of other machines, "
              "on paper\n"
              "  ridgeline roofline --list                           dense peaks and ridge points "
              "of GPUs",
          .make = make_study<CeilingProbes>,
          .csv = roofline_csv,
          .row_word = "probe",
          .in_reports = "Roofline",
          .sections = {roofline_section},
          .checks_values = false,
          .turn = 1};  // the others refer to its ceilings
}

}  // namespace ridgeline
