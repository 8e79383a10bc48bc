// ridgeline gemm: matrix products from three loops to the library's, over sizes.
#include <fmt/format.h>

#include <memory>

#include "base/print.h"
#include "cli/build_facts.h"
#include "cli/commands.h"
#include "cli/interrupt.h"
#include "cli/options.h"
#include "cli/stored_ceilings.h"
#include "cli/sweep.h"
#include "cli/sweep_group.h"
#include "studies/gemm/row.h"
#include "studies/gemm/tables.h"

namespace ridgeline {
namespace {

struct GemmFlags {
  std::vector<std::string> implementations;
  std::vector<std::string> ops = {"gemm", "gemv"};
  std::vector<int64_t> sizes;
  std::vector<std::string> shapes;
  std::vector<std::string> dtypes = {"fp32"};
  std::string mode = "hot";
  DeviceFlags device;
  ProtocolFlags protocol{.warmups = 3, .iterations = 100, .time_budget = "1s"};
  StudyFlags study;
};

GemmMatrix matrix_of(const GemmFlags& flags, const Device& device) {
  GemmMatrix matrix{.ops = flags.ops,
                    .sizes = flags.sizes,
                    .shapes = {},
                    .dtypes = flags.dtypes,
                    .implementations = flags.implementations};
  for (const std::string& shape : flags.shapes) matrix.shapes.push_back(parse_gemm_shape(shape));
  if (matrix.sizes.empty() && matrix.shapes.empty())
    matrix.sizes = default_gemm_sizes(device.facts().is_gpu());
  if (matrix.implementations.empty()) matrix.implementations = gemm_implementations_of(device);
  return matrix;
}

int list_gemms() {
  print("implementations:\n");
  for (const GemmImplementation& implementation : gemm_implementations())
    print("  {:<12} {}\n", implementation.name, implementation.summary);
  print(
      "ops:\n"
      "  gemm         C[size,size] = A[size,size] B[size,size]\n"
      "  gemv         y[size] = A[size,size] x[size]\n"
      "modes:\n"
      "  hot          the same operands over and over; small ones stay in a cache\n"
      "  cold         the last cache is emptied before every sample\n"
      "sizes without --size and --shape:\n");
  for (const bool on_gpu : {false, true}) {
    print("  {:<12}", on_gpu ? "cuda" : "cpu");
    for (int64_t size : default_gemm_sizes(on_gpu)) print(" {}", size);
    print("\n");
  }
  print("dtypes:\n  fp32, bf16, fp16; tf32 for the library on a GPU\n");
  return 0;
}

int dry_run(const std::vector<GemmWorkload>& workloads, const GemmStudy& study,
            const Device& device) {
  Table table{
      .title = fmt::format("{} rows would run on {}", workloads.size(), device.description()),
      .columns = {"row", "predicted memory", "fits", "MMAC", "FLOP/byte"},
      .rows = {}};
  for (const GemmWorkload& workload : workloads) {
    const Record record = study.describe(workload, {});
    const PhaseCost& cost = record.cost->forward;
    table.rows.push_back({label(workload), to_string(cost.bytes),
                          cost.bytes <= device.ledger().budget() ? "yes" : "no",
                          fmt::format("{:.4g}", static_cast<double>(cost.macs) / 1e6),
                          fmt::format("{:.4g}", static_cast<double>(cost.flops) /
                                                    static_cast<double>(cost.bytes.count))});
  }
  print("{}", to_terminal(table));
  return 0;
}

std::string row_command(const GemmFlags& flags, const Device& device, const Protocol& protocol,
                        const GemmWorkload& workload) {
  const GemmShape& shape = workload.shape;
  return fmt::format(
      "ridgeline gemm{}{} --seed {}{} --mode {} --impl {} --shape {},{},{} --dtype {}",
      to_command(flags.device, device), to_command(protocol), flags.study.seed,
      flags.study.no_verify ? " --no-verify" : "", flags.mode, workload.implementation, shape.m,
      shape.n, shape.k, info(workload.dtype).name);
}

int run_command(const GemmFlags& flags) {
  namespace fs = std::filesystem;
  if (flags.study.list) return list_gemms();
  const std::unique_ptr<Device> device = open_device(flags.device);
  const std::vector<GemmWorkload> workloads = expand_matrix(matrix_of(flags, *device));
  const Protocol protocol = make_protocol(flags.protocol);
  const Record blank = blank_record(*device);
  const std::optional<Roofline> ceilings =
      stored_ceilings(flags.study.results_dir, *device, blank.machine);
  GemmStudy study(*device, {.protocol = protocol,
                            .seed = flags.study.seed,
                            .verify = !flags.study.no_verify,
                            .cold = flags.mode == "cold",
                            .settings = settings_of(flags.device, *device),
                            .roofline = ceilings ? &*ceilings : nullptr,
                            .interrupted = sweep_interrupted});
  if (flags.study.dry_run) return dry_run(workloads, study, *device);

  std::vector<SweepRow> rows;
  for (const GemmWorkload& workload : workloads) {
    Record record = study.describe(workload, blank);
    record.command = row_command(flags, *device, protocol, workload);
    const auto run = [&study, workload, record] { return study.run(workload, record); };
    rows.push_back({record, label(workload), study.expected_s(workload, record), run});
  }
  const fs::path directory = fs::path(flags.study.results_dir) / "gemm";
  watch_for_interrupts();
  const SweepResult result =
      run_sweep(rows, {.records = directory / "gemm.jsonl",
                       .output = flags.study.output,
                       .resume = flags.study.resume,
                       .runs = flags.study.runs,
                       .budget = device->ledger().budget(),
                       .baseline = {flags.study.save_baseline, flags.study.results_dir},
                       .table = gemm_csv});
  if (result.records.empty()) return exit_code(result);
  print("GEMM lab on {}\n\n{}\n", device->description(),
        to_terminal(gemm_summary(result.records), directory / "gemm.csv"));
  for (const std::string& note : gemm_notes(result.records)) print("  - {}\n", note);
  print("\nRecords: {0}/gemm.jsonl\nCSV:     {0}/gemm.csv\n", directory.string());
  return exit_code(result);
}

}  // namespace

Run add_gemm_command(CLI::App& app) {
  auto flags = std::make_shared<GemmFlags>();
  CLI::App* command = app.add_subcommand(
      "gemm", "matrix products: naive, tiled and the library's, with their place under the roof");
  add_implementations(*command, flags->implementations,
                      "naive, tiled, simd, library (default: all that the device has)");
  command->add_option("--op", flags->ops, "gemm, gemv: what --size makes")
      ->delimiter(',')
      ->capture_default_str();
  add_sizes(*command, "--size", flags->sizes, "of square problems");
  command->add_option("--shape", flags->shapes,
                      "M,N,K of one problem; give it again for more; N = 1 is a gemv");
  add_dtypes(*command, flags->dtypes)->capture_default_str();
  command->add_option("--mode", flags->mode, "hot, or cold: the last cache emptied before a sample")
      ->check(one_of({"hot", "cold"}))
      ->capture_default_str();
  add_protocol_flags(*command, flags->protocol);
  add_device_flags(*command, flags->device);
  add_study_flags(*command, flags->study, "implementations, ops, modes, sizes and dtypes");
  command->footer(
      "Examples:\n"
      "  ridgeline roofline && ridgeline gemm                every rung, as shares of the measured "
      "roof\n"
      "  ridgeline gemm --op gemv --mode cold --size 8192 --dtype bf16\n"
      "  ridgeline gemm --impl library --shape 4096,4096,1024 --num-iterations 50");
  return [flags] { return run_command(*flags); };
}

}  // namespace ridgeline
