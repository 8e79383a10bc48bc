#include "cli/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>

#include "base/closest.h"
#include "base/error.h"
#include "base/print.h"
#include "cli/interrupt.h"
#include "jit/cuda_libraries.h"
#include "report/terminal/table.h"
#include "runtime/cpu_device.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline {
namespace {

std::string at_least_one(const std::string& text) {
  int64_t value = 0;
  const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (problem != std::errc{} || end != text.data() + text.size())
    return fmt::format("'{}' is not a whole number below 2^63", text);
  return value >= 1 ? std::string() : fmt::format("{} is not a size; sizes are at least 1", text);
}

// CLI11 would take -1 for the largest number that there is.
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

// Told even where nothing is written, as by --dry-run.
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
  constexpr Bytes kPlausible{1 << 20};  // records of earlier versions have bytes without a unit
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

CLI::Validator one_of(std::vector<std::string> names) {
  const std::string shown = fmt::format("{{{}}}", fmt::join(names, ","));
  return CLI::Validator(
      [names = std::move(names)](const std::string& text) {
        if (std::find(names.begin(), names.end(), text) != names.end()) return std::string();
        const Error unknown = unknown_name(text, {.what = "a value of this flag", .names = names});
        return unknown.message() + ": " + unknown.next_step();
      },
      shown);
}

DeviceChoice parse_device(const std::string& text) {
  if (text == "auto") return {};
  if (text == "cpu") return {DeviceChoice::Kind::cpu};
  if (text == "cuda") return {DeviceChoice::Kind::cuda};
  constexpr std::string_view kPrefix = "cuda:";
  int ordinal = 0;
  const char* end = text.data() + text.size();
  if (text.starts_with(kPrefix)) {
    const auto [stop, problem] = std::from_chars(text.data() + kPrefix.size(), end, ordinal);
    if (problem == std::errc{} && stop == end && ordinal >= 0)
      return {DeviceChoice::Kind::cuda, ordinal};
  }
  throw unknown_name(text, {.what = "a device", .names = {"auto", "cpu", "cuda", "cuda:N"}});
}

void add_device_flags(CLI::App& app, DeviceFlags& flags) {
  app.add_option("--device", flags.device,
                 "auto (a GPU if one can be driven, else the CPU), cpu, cuda or cuda:N")
      ->capture_default_str();
  app.add_option("--threads", flags.threads,
                 "threads of the CPU (default: all that this process may use)")
      ->check(CLI::Range(1, 4096));
  app.add_option(
      "--memory-budget", flags.memory_budget,
      "most memory for tensors, such as 4GiB (default: what is available less a margin)");
  app.add_option("--tune", flags.tune,
                 "search for the fastest variant of each GPU kernel and remember it: off (take the "
                 "table's or the remembered one), quick or full")
      ->check(one_of({"off", "quick", "full"}))
      ->capture_default_str();
  app.add_flag("--deterministic", flags.deterministic,
               "the same bits from run to run on a GPU: products by the library's first proposal, "
               "not the fastest; gradients of fused attention in two passes");
  app.add_option("--dump-kernels", flags.dump_kernels,
                 "a folder for the source of every generated kernel; of a GPU also PTX and SASS");
}

namespace {

Tuning parse_tuning(const std::string& text) {
  return text == "full" ? Tuning::full : text == "quick" ? Tuning::quick : Tuning::off;
}

CompileHook kernels_compiled(const StageHook& stage) {
  if (!stage) return {};
  return [stage](size_t ready, size_t wanted) {
    stage(fmt::format("{} of {} kernels compiled", ready, wanted));
  };
}

std::unique_ptr<Device> open_cpu(const DeviceFlags& flags, const StageHook& stage) {
  CpuOptions options;
  options.compiler.dump_dir = flags.dump_kernels;
  options.compiler.compiled = kernels_compiled(stage);
  options.compiler.interrupted = interrupted;
  if (flags.threads > 0) options.threads = flags.threads;
  if (!flags.memory_budget.empty())
    options.ledger.budget = parse_memory_budget(flags.memory_budget);
  return std::make_unique<CpuDevice>(std::move(options));
}

std::unique_ptr<Device> open_cuda(const DeviceFlags& flags, int ordinal, const StageHook& stage) {
  CudaOptions options{
      .ordinal = ordinal, .tuning = parse_tuning(flags.tune), .deterministic = flags.deterministic};
  options.jit.dump_dir = flags.dump_kernels;
  options.jit.compiled = kernels_compiled(stage);
  if (!flags.memory_budget.empty()) options.budget = parse_memory_budget(flags.memory_budget);
  return std::make_unique<CudaDevice>(std::move(options));
}

}  // namespace

std::unique_ptr<Device> open_device(const DeviceFlags& flags, const StageHook& stage) {
  const DeviceChoice choice = parse_device(flags.device);
  if (choice.kind == DeviceChoice::Kind::cpu) return open_cpu(flags, stage);
  if (choice.kind == DeviceChoice::Kind::cuda) {
    try {
      return open_cuda(flags, choice.ordinal, stage);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::unsupported) throw;
      throw Error(error.kind(), fmt::format("--device {}: {}", flags.device, error.message()),
                  fmt::format("{}{}use --device cpu; `ridgeline doctor` lists what was found",
                              error.next_step(), error.next_step().empty() ? "" : "; or "));
    }
  }
  // A machine without a driver has no GPU to be missed.
  if (!cuda_library("cuda")) return open_cpu(flags, stage);
  try {
    return open_cuda(flags, 0, stage);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::usage) throw;
    say("running on the CPU: {}", error.message());
    return open_cpu(flags, stage);
  }
}

std::string to_command(const DeviceFlags& flags, const Device& device) {
  const DeviceFacts facts = device.facts();
  std::string text = fmt::format(" --device {}", device.name());
  if (facts.threads > 0) {
    text += fmt::format(" --threads {}", facts.threads);
  } else {
    if (facts.ordinal > 0) text += fmt::format(":{}", facts.ordinal);
    if (flags.tune != "off") text += " --tune " + flags.tune;
    if (flags.deterministic) text += " --deterministic";
  }
  if (!flags.memory_budget.empty())
    text += fmt::format(" --memory-budget {}B", device.ledger().budget().count);
  return text;
}

std::vector<std::string> to_words(const DeviceFlags& flags) {
  std::vector<std::string> words;
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  add("--device", flags.device);
  add("--threads", flags.threads > 0 ? fmt::to_string(flags.threads) : "");
  add("--memory-budget", flags.memory_budget);
  add("--tune", flags.tune);
  add("--dump-kernels", flags.dump_kernels);
  if (flags.deterministic) words.emplace_back("--deterministic");
  return words;
}

std::string to_command(const Protocol& protocol) {
  const std::string amount = protocol.time_budget_s > 0
                                 ? fmt::format(" --time-budget {}", protocol.time_budget_s)
                                 : fmt::format(" --num-iterations {}", protocol.iterations);
  return fmt::format(" --num-warmup {}{}", protocol.warmups, amount);
}

std::string time_budget_help(std::string_view amount) {
  return fmt::format(
      "{}; takes at least {} samples, and ends early when the median is known to 1 % within-run",
      amount, kMinIntervalSamples);
}

void add_protocol_flags(CLI::App& app, ProtocolFlags& flags) {
  app.add_option("-w,--num-warmup,--warmup-steps", flags.warmups,
                 "untimed runs before the first sample; 0 shows what missing warm-up does")
      ->check(CLI::Range(0, kMaxIterations))
      ->capture_default_str();
  flags.given_iterations =
      app.add_option("-r,--num-iterations,--measure-steps", flags.iterations,
                     flags.time_budget.empty() ? "samples per row"
                                               : "samples per row, instead of a time budget")
          ->check(CLI::Range(1, kMaxIterations));
  if (flags.time_budget.empty()) app.get_option("--num-iterations")->capture_default_str();
  flags.given_budget =
      app.add_option("--time-budget", flags.time_budget,
                     time_budget_help("seconds per row instead of a fixed number of samples"))
          ->capture_default_str();
}

Protocol make_protocol(const ProtocolFlags& flags) {
  Protocol protocol{.warmups = flags.warmups, .iterations = flags.iterations};
  // A number of samples that was asked for takes the place of a default budget, not of one that
  // was asked for, too.
  const auto given = [](const CLI::Option* option) { return option && option->count() > 0; };
  const bool wants_number = given(flags.given_iterations) && !given(flags.given_budget);
  if (!flags.time_budget.empty() && !wants_number)
    protocol.time_budget_s = parse_time_budget(flags.time_budget);
  return protocol;
}

void add_save_baseline(CLI::App& app, std::string& name) {
  app.add_option("--save-baseline", name,
                 "keep the rows under this name in the history, for compare --baseline NAME")
      ->check(CLI::Validator(not_empty, ""));
}

void add_output_flags(CLI::App& app, OutputFlags& flags) {
  app.add_option("-o,--output", flags.table, "a further file: .csv, .jsonl or .md")
      ->check(CLI::Validator(known_ending, ""));
  app.add_option("--json", flags.json,
                 "a further file with the records, raw samples included, as one JSON array")
      ->check(CLI::Validator(not_empty, ""));
}

void add_runs(CLI::App& app, int& runs) {
  app.add_option(
         "--runs", runs,
         "measure all rows so many times, each time in a fresh process; verdicts of compare "
         "then know how far runs lie apart (5 is a good number)")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str()
      ->excludes("--resume");
}

void add_study_flags(CLI::App& app, StudyFlags& flags, const std::string& list) {
  app.add_option("--seed", flags.seed, "of the random inputs")
      ->check(CLI::Validator(not_negative, ""))
      ->capture_default_str();
  app.add_flag("--no-verify", flags.no_verify, "do not compare with the fp64 oracle");
  add_output_flags(app, flags.output);
  app.add_option("--results-dir", flags.results_dir, "where records and tables go")
      ->capture_default_str();
  app.add_flag("--resume", flags.resume, "run only the rows that the results file does not hold");
  add_runs(app, flags.runs);
  app.add_flag("--dry-run", flags.dry_run, "show the rows and their predicted memory, run nothing");
  app.add_flag("--list", flags.list, "show " + list);
  add_save_baseline(app, flags.save_baseline);
}

CLI::Option* add_sizes(CLI::App& app, const std::string& flag, std::vector<int64_t>& sizes,
                       const std::string& description) {
  return app.add_option(flag, sizes, description)
      ->delimiter(',')
      ->check(CLI::Validator(at_least_one, "SIZE"));
}

CLI::Option* add_head_dims(CLI::App& app, std::vector<int64_t>& head_dims) {
  return add_sizes(app, "--d-model,--head-dim", head_dims, "width of one head");
}

CLI::Option* add_implementations(CLI::App& app, std::vector<std::string>& names,
                                 const std::string& description) {
  return app.add_option("--impl", names, description)->delimiter(',');
}

CLI::Option* add_dtypes(CLI::App& app, std::vector<std::string>& dtypes) {
  return app.add_option("--dtype", dtypes, "fp32, tf32, bf16 or fp16")->delimiter(',');
}

void add_causal(CLI::App& app, bool& causal) {
  app.add_flag("--causal", causal, "a query sees only keys up to its own position");
}

void add_backward(CLI::App& app, BackwardFlags& flags) {
  constexpr int kAlgorithms = 2;
  const auto take = [&flags](const std::vector<std::string>& given) {
    flags.asked = true;
    for (const std::string& word : given)
      if (!word.empty() && word != "{}") flags.algorithms.push_back(word);  // none: by itself
    return true;
  };
  app.add_option("--backward,--backward-algorithm", take,
                 "the gradient, too; of flash and compiled by single-pass, two-pass or both "
                 "(default: single-pass, with --deterministic on a GPU two-pass)")
      ->type_name("ALGORITHM")
      ->expected(0, kAlgorithms)
      ->delimiter(',');
}

}  // namespace ridgeline
