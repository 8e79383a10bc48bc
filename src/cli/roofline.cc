// ridgeline roofline: measured ceilings beside the data sheet's, and measured ops below them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <set>

#include "base/error.h"
#include "base/print.h"
#include "cli/base_results.h"
#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/stored_ceilings.h"
#include "cli/sweep.h"
#include "cli/sweep_group.h"
#include "studies/roofline/row.h"
#include "studies/roofline/tables.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

struct RooflineFlags {
  std::vector<std::string> results;
  std::vector<std::string> dtypes;
  std::vector<int64_t> sizes;
  std::string settle_time = "3s";
  ProtocolFlags protocol{.warmups = 0, .iterations = 100, .time_budget = "1s"};
  bool stored = false;
  bool no_plot = false;
  DeviceFlags device;
  StudyFlags study;
};

std::vector<std::string> dtypes_of(const RooflineFlags& flags, const Device& device) {
  std::vector<std::string> dtypes = flags.dtypes;
  if (dtypes.empty()) dtypes = {"fp32", "bf16", "fp16"};
  if (flags.dtypes.empty() && device.facts().is_gpu()) dtypes.insert(dtypes.begin() + 1, "tf32");
  for (const std::string& dtype : dtypes) parse_float_dtype(dtype);
  return dtypes;
}

// Ops to be placed: ceilings are what they are placed under.
std::vector<Record> read_ops(const std::vector<std::string>& paths) {
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

int dry_run(const std::vector<CeilingProbe>& probes, const RooflineStudy& study,
            const Device& device) {
  Table table{
      .title = fmt::format("{} probes would run on {}", probes.size(), device.description()),
      .columns = {"probe", "predicted memory", "fits"},
      .rows = {}};
  for (const CeilingProbe& probe : probes) {
    const Bytes peak = *study.describe(probe, {}).memory.predicted_peak;
    table.rows.push_back(
        {label(probe), to_string(peak), peak <= device.ledger().budget() ? "yes" : "no"});
  }
  print("{}", to_terminal(table));
  return 0;
}

void show_points(const std::vector<Record>& ops, const Roofline& roofline, bool plot,
                 const fs::path& csv) {
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

int run_command(const RooflineFlags& flags) {
  if (flags.study.list) {
    print("{}", to_terminal(gpu_spec_table()));
    return 0;
  }
  const std::vector<Record> ops = read_ops(flags.results);  // a bad path is told before the work
  const std::unique_ptr<Device> device = open_device(flags.device);
  const Record blank = blank_record(*device);
  RooflineStudy study(*device, {.settle_s = parse_seconds(flags.settle_time),
                                .protocol = make_protocol(flags.protocol),
                                .sizes = flags.sizes,
                                .seed = flags.study.seed,
                                .settings = settings_of(flags.device, *device),
                                .interrupted = sweep_interrupted});
  const std::vector<CeilingProbe> probes = study.probes(dtypes_of(flags, *device), blank);
  if (flags.study.dry_run) return dry_run(probes, study, *device);

  const fs::path directory = fs::path(flags.study.results_dir) / "roofline";
  std::optional<Roofline> roofline;
  SweepResult result;
  if (flags.stored) {
    roofline = stored_ceilings(flags.study.results_dir, *device, blank.machine);
    if (!roofline)
      throw Error(ErrorKind::usage,
                  fmt::format("{} holds no ceilings of this device ({})", directory.string(),
                              device->description()),
                  "run without --stored to measure them");
  } else {
    std::vector<SweepRow> rows;
    for (const CeilingProbe& probe : probes) {
      Record record = study.describe(probe, blank);
      record.command = "ridgeline roofline" + to_command(flags.device, *device) +
                       to_command(make_protocol(flags.protocol)) +
                       (probe.dtype.empty() ? std::string() : " --dtype " + probe.dtype);
      const auto run = [&study, probe, record] { return study.run(probe, record); };
      rows.push_back({record, label(probe), study.expected_s(), run});
    }
    watch_for_interrupts();
    result = run_sweep(rows, {.records = directory / "roofline.jsonl",
                              .output = flags.study.output,
                              .resume = flags.study.resume,
                              .runs = flags.study.runs,
                              .budget = device->ledger().budget(),
                              .baseline = {flags.study.save_baseline, flags.study.results_dir},
                              .table = roofline_csv});
    const std::vector<Roofline> all = rooflines(result.records);
    if (all.empty()) return exit_code(result);
    roofline = all.front();
    for (const Record& record : result.records)
      if (record.status != Status::ok)
        say("{} {}: {}", record.implementation, status_csv_word(record.status), record.error);
  }
  if (std::any_of(probes.begin(), probes.end(),
                  [](const auto& probe) { return probe.within_cache; }))
    say("the budget of {} keeps the streams of memory within the last cache, whose rate they show: "
        "raise --memory-budget",
        to_string(device->ledger().budget()));
  print("Roofline of {} ({})\n\n{}\n{}", roofline->title, device->description(),
        to_terminal(compute_ceilings(*roofline), directory / "roofline.csv"),
        to_terminal(memory_ceilings(*roofline), directory / "roofline.csv"));
  if (!ops.empty()) show_points(ops, *roofline, !flags.no_plot, directory / "points.csv");
  print("\nRecords: {0}/roofline.jsonl\nCSV:     {0}/roofline.csv\n", directory.string());
  return exit_code(result);
}

}  // namespace

Run add_roofline_command(CLI::App& app) {
  auto flags = std::make_shared<RooflineFlags>();
  CLI::App* command = app.add_subcommand(
      "roofline", "measured ceilings, ridge points, and every measured op below them");
  command->add_option("results", flags->results,
                      "results files (.jsonl) whose ops are placed on the roofline");
  command
      ->add_option("--dtype", flags->dtypes,
                   "of the compute ceilings (default: fp32, bf16, fp16; on a GPU tf32 too)")
      ->delimiter(',');
  add_sizes(*command, "--size", flags->sizes,
            "of the products (default: 1024 and 2048; on a GPU 4096 and 8192)");
  CLI::Option* stored =
      command->add_flag("--stored", flags->stored,
                        "use the ceilings in the results folder instead of measuring them");
  command
      ->add_option("--settle-time", flags->settle_time,
                   "most seconds of load before a probe is measured; ends when the rate is steady")
      ->capture_default_str();
  add_protocol_flags(*command, flags->protocol);
  command->add_flag("--no-plot", flags->no_plot, "no plot in characters");
  add_device_flags(*command, flags->device);
  add_study_flags(*command, flags->study, "the data sheets of GPUs with their ridge points");
  command->remove_option(command->get_option("--no-verify"));
  stored->excludes(command->get_option("--save-baseline"));
  command->footer(
      "Examples:\n"
      "  ridgeline roofline                                  the ceilings of this machine\n"
      "  ridgeline roofline --stored results/*/*.jsonl       what bounds everything measured here\n"
      "  ridgeline roofline --list                           dense peaks and ridge points of GPUs");
  return [flags] { return run_command(*flags); };
}

}  // namespace ridgeline
