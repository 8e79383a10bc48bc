#include "studies/shared_flags.h"

#include <fmt/format.h>

#include <cctype>

#include "base/error.h"
#include "measure/record_json.h"

namespace ridgeline {
namespace {

// The parser would read -1 as the largest unsigned number.
std::string not_negative(const std::string& text) {
  return text.starts_with('-') ? fmt::format("'{}' is not a whole number of at least 0", text)
                               : std::string();
}

std::string not_empty(const std::string& text) {
  return text.empty() ? "is empty: give a name" : "";
}

bool has_no_unit(const std::string& text) {
  return !text.empty() &&
         (std::isdigit(static_cast<unsigned char>(text.back())) || text.back() == '.');
}

// Reported even if nothing is written, as with --dry-run.
std::string known_ending(const std::string& path) {
  try {
    output_format(path);
  } catch (const Error& error) {
    return error.message();
  }
  return {};
}

}  // namespace

double parse_time_budget(const std::string& text) {
  const double seconds = parse_seconds(text);
  if (seconds > 0) return seconds;
  throw Error(ErrorKind::usage, fmt::format("--time-budget '{}' leaves no time to measure", text),
              "give some, such as 500ms");
}

Bytes parse_memory_budget(const std::string& text) {
  constexpr Bytes kPlausible{1 << 20};  // commands in older records give bytes without a unit
  const Bytes bytes = parse_bytes(text);
  if (bytes <= Bytes{})
    throw Error(ErrorKind::usage,
                fmt::format("--memory-budget '{}' leaves no room for any tensor", text),
                "give some, such as 4GiB");
  if (has_no_unit(text) && bytes < kPlausible)
    throw Error(ErrorKind::usage,
                fmt::format("--memory-budget '{0}' has no unit: {0} bytes? {0}GiB?", text),
                fmt::format("write {0}GiB or {0}MiB; {0}B for bytes", text));
  return bytes;
}

std::string time_budget_help(std::string_view amount) {
  return fmt::format(
      "{}; takes at least {} samples, and ends early when the median is known to 1 % within-run",
      amount, kMinIntervalSamples);
}

void add_device_flags(Flags& flags, DeviceFlags* device) {
  flags.add("--device", &device->device,
            "auto (a GPU if one can be driven, else the CPU), cpu, cuda or cuda:N",
            {.shows_default = true, .choices = {"auto", "cpu", "cuda"}});
  flags.add("--threads", &device->threads,
            "threads of the CPU (default: all that this process may use)",
            {.range = FlagRange{1, 4096}});
  flags.add("--memory-budget", &device->memory_budget,
            "most memory for tensors, such as 4GiB (default: what is available less a margin)");
  flags.add("--tune", &device->tune,
            "search for the fastest variant of each GPU kernel and remember it: off (take the "
            "table's or the remembered one), quick or full",
            {.shows_default = true, .choices = {"off", "quick", "full"}, .only_choices = true});
  flags.add("--deterministic", &device->deterministic,
            "the same bits from run to run on a GPU: products by the library's first proposal, "
            "not the fastest; gradients of fused attention in two passes");
  flags.add("--dump-kernels", &device->dump_kernels,
            "a folder for the source of every generated kernel; of a GPU also PTX and SASS");
}

std::string to_command(const DeviceFlags& flags, const Device& device, std::optional<int> threads) {
  const DeviceFacts facts = device.facts();
  std::string text = fmt::format(" --device {}", device.name());
  if (facts.threads > 0) {
    text += fmt::format(" --threads {}", threads.value_or(facts.threads));
  } else {
    if (facts.ordinal > 0) text += fmt::format(":{}", facts.ordinal);
    if (flags.tune != "off") text += " --tune " + flags.tune;
    if (flags.deterministic) text += " --deterministic";
  }
  if (!flags.memory_budget.empty())
    text += fmt::format(" --memory-budget {}B", device.ledger().budget().count);
  return text;
}

Words words_for_child(DeviceFlags given, const Device& device) {
  DeviceFlags otherwise;
  Flags flags;
  add_device_flags(flags, &otherwise);
  if (given.device == "auto") given.device = device.name();
  given.threads = device.facts().threads;
  given.memory_budget = fmt::format("{}B", device.ledger().budget().count);
  otherwise = given;
  return flags.changed();
}

Json settings_of(const DeviceFlags& flags, const Device& device) {
  if (!device.facts().is_gpu()) return Json::object();
  return {{"tune", flags.tune}};
}

void add_protocol_flags(Flags& flags, ProtocolFlags* protocol) {
  const bool has_budget = !protocol->time_budget.empty();
  flags.add("-w,--num-warmup,--warmup-steps", &protocol->warmups,
            "untimed runs before the first sample; 0 shows what missing warm-up does",
            {.shows_default = true, .range = FlagRange{0, kMaxIterations}});
  flags.add("-r,--num-iterations,--measure-steps", &protocol->iterations,
            has_budget ? "samples per row, instead of a time budget" : "samples per row",
            {.shows_default = !has_budget,
             .range = FlagRange{1, kMaxIterations},
             .given = &protocol->gave_iterations});
  flags.add("--time-budget", &protocol->time_budget,
            time_budget_help("seconds per row instead of a fixed number of samples"),
            {.shows_default = true, .given = &protocol->gave_budget});
}

Protocol make_protocol(const ProtocolFlags& flags) {
  Protocol protocol{.warmups = flags.warmups, .iterations = flags.iterations};
  // An explicit number of samples replaces a default budget, but not an explicit one.
  const bool wants_number = flags.gave_iterations && !flags.gave_budget;
  if (!flags.time_budget.empty() && !wants_number)
    protocol.time_budget_s = parse_time_budget(flags.time_budget);
  return protocol;
}

std::string to_command(const Protocol& protocol) {
  const std::string amount = protocol.time_budget_s > 0
                                 ? fmt::format(" --time-budget {}", protocol.time_budget_s)
                                 : fmt::format(" --num-iterations {}", protocol.iterations);
  return fmt::format(" --num-warmup {}{}", protocol.warmups, amount);
}

void add_output_flags(Flags& flags, OutputFlags* output) {
  flags.add("-o,--output", &output->table, "a further file: .csv, .jsonl or .md",
            {.check = {known_ending}});
  flags.add("--json", &output->json,
            "a further file with the records, raw samples included, as one JSON array",
            {.check = {not_empty}});
}

void write_output(const OutputFlags& output, const std::vector<Record>& records,
                  const Table& table) {
  if (!output.json.empty()) write_file_atomically(output.json, to_array(records));
  if (output.table.empty()) return;
  if (output_format(output.table) == OutputFormat::jsonl)
    write_file_atomically(output.table, to_lines(records));
  else
    write_table(output.table, table);
}

std::vector<FileDescriptor> check_output(const OutputFlags& output) {
  if (!output.table.empty()) output_format(output.table);
  std::vector<FileDescriptor> held;
  for (const std::string& path : {output.table, output.json})
    if (!path.empty()) held.push_back(check_writable(path));
  return held;
}

void add_results_dir(Flags& flags, std::string* results_dir, const std::string& help) {
  flags.add("--results-dir", results_dir, help, {.shows_default = true});
}

void add_save_baseline(Flags& flags, std::string* name) {
  flags.add("--save-baseline", name,
            "keep the rows under this name in the history, for compare --baseline NAME",
            {.check = {not_empty}});
}

void add_runs(Flags& flags, int* runs) {
  flags.add("--runs", runs,
            "measure all rows so many times, each time in a fresh process; verdicts of compare "
            "then know how far runs lie apart (5 is a good number)",
            {.shows_default = true, .range = FlagRange{1, 1000}, .excludes = {"--resume"}});
}

void add_sweep_flags(Flags& flags, SharedFlags* shared, const SweepFlagHelp& help) {
  flags.add("--seed", &shared->seed, "of the random inputs",
            {.shows_default = true, .check = {not_negative}});
  if (!help.no_verify.empty()) flags.add("--no-verify", &shared->no_verify, help.no_verify);
  add_output_flags(flags, &shared->output);
  add_results_dir(flags, &shared->results_dir, "where records and tables go");
  flags.add("--resume", &shared->resume, "run only the rows that the results file does not hold");
  add_runs(flags, &shared->runs);
  flags.add("--dry-run", &shared->dry_run, "show the rows and their predicted memory, run nothing");
  flags.add("--list", &shared->list, "show " + help.list);
  add_save_baseline(flags, &shared->save_baseline);
}

}  // namespace ridgeline
