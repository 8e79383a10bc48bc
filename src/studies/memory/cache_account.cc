#include "studies/memory/cache_account.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/file_io.h"
#include "base/print.h"
#include "studies/memory/model_account.h"
#include "studies/model/flags.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr int64_t kUsualContext = 4096;

// Whether two rows are of one model and share its sentences.
bool is_same_model(const CacheWorkload& a, const CacheWorkload& b) {
  return a.config_word == b.config_word && a.dtype == b.dtype && a.mode == b.mode;
}

std::string account_name(const CacheWorkload& workload) {
  return fmt::format("{} {} {}, batch {}", workload.config.name, info(workload.dtype).name,
                     info(workload.mode).name, workload.batch_size);
}

std::string growth_sentence(const CacheAccount& account) {
  const Gemma3Config& config = account.workload.config;
  const auto sliding = std::ranges::count(config.layers, Gemma3Layer::sliding);
  return fmt::format(
      "A token of a sequence adds {} of keys and values up to the window of {} tokens, and {} from "
      "there on, where {} of {} layers stop growing.\n",
      to_string(account.per_token.within_window), config.sliding_window,
      to_string(account.per_token.past_window), sliding, config.layer_count());
}

std::string longest_sentence(const CacheWorkload& workload, int64_t longest, Bytes budget) {
  const int64_t most = workload.config.max_positions;
  if (longest == 0)
    return fmt::format(
        "No context fits the budget of {}: weights and working memory are above it.\n",
        to_string(budget));
  return fmt::format(
      "The longest context that fits the budget of {} beside weights and working memory, prompts "
      "of up to {} tokens taken in at once, is {} tokens{}.\n",
      to_string(budget), workload.prompt, longest,
      longest == most ? ": all positions that the model was made for"
                      : fmt::format(" of the {} that the model was made for", most));
}

Table cache_table(const std::vector<CacheAccount>& accounts, Bytes budget) {
  Table table{.title = account_name(accounts.front().workload),
              .columns = {"context", "weights", "keys and values", "working memory",
                          "predicted peak", "fits"},
              .rows = {}};
  for (const CacheAccount& each : accounts)
    table.rows.push_back({fmt::to_string(each.workload.context), to_string(each.weights),
                          to_string(each.cache), to_string(each.working), to_string(each.peak),
                          each.peak <= budget ? "yes" : "no"});
  return table;
}

struct CacheRow {
  CacheAccount account;
  int64_t longest = 0;
};

Table cache_csv(const std::vector<CacheRow>& rows, Bytes budget) {
  Table table{.title = "memory of caches, in bytes",
              .columns = {"model", "context_length", "batch_size", "prompt_tokens", "dtype",
                          "implementation", "num_params", "weights_bytes", "kv_cache_bytes",
                          "working_bytes", "predicted_peak_bytes", "kv_cache_bytes_per_token",
                          "kv_cache_bytes_per_token_past_window", "sliding_window",
                          "longest_context", "max_positions", "budget_bytes", "fits"},
              .rows = {}};
  for (const auto& [account, longest] : rows) {
    const CacheWorkload& work = account.workload;
    std::vector<std::string>& cells = table.rows.emplace_back();
    cells.push_back(work.config.name);
    for (const int64_t size : {work.context, work.batch_size, std::min(work.prompt, work.context)})
      cells.push_back(fmt::to_string(size));
    cells.emplace_back(info(work.dtype).name);
    cells.emplace_back(info(work.mode).name);
    for (const int64_t count :
         {parameter_count(work.config), account.weights.count, account.cache.count,
          account.working.count, account.peak.count, account.per_token.within_window.count,
          account.per_token.past_window.count, work.config.sliding_window, longest,
          work.config.max_positions, budget.count})
      cells.push_back(fmt::to_string(count));
    cells.emplace_back(account.peak <= budget ? "True" : "False");
  }
  return table;
}

Record record_of(const CacheRow& row, const StudyRun& run) {
  const CacheAccount& account = row.account;
  const CacheWorkload& work = account.workload;
  Record record = describe_row({.study = "memory",
                                .implementation = info(work.mode).name,
                                .workload = {{"model_config", work.config.name},
                                             {"context_length", work.context},
                                             {"batch_size", work.batch_size},
                                             {"prompt_tokens", std::min(work.prompt, work.context)},
                                             {"dtype", info(work.dtype).name}}},
                               {.seed = 0, .settings = run.settings}, run.device, run.blank);
  record.time = utc_now();
  record.command = fmt::format(
      "ridgeline memory{} --model-config {} --context-length {} --batch-size {} --prompt-length {} "
      "--dtype {} --impl {}",
      run.device_words, work.config_word, work.context, work.batch_size, work.prompt,
      info(work.dtype).name, info(work.mode).name);
  record.memory.predicted_peak = account.peak;
  record.metrics =
      Json{{"weights_bytes", account.weights.count},
           {"kv_cache_bytes", account.cache.count},
           {"working_bytes", account.working.count},
           {"kv_cache_bytes_per_token", account.per_token.within_window.count},
           {"kv_cache_bytes_per_token_past_window", account.per_token.past_window.count},
           {"longest_context", row.longest}};
  mark_above_budget(record, run.device);
  return record;
}

}  // namespace

CacheAccount account_cache(const CacheWorkload& workload, Device& device) {
  const Generator generator(workload.config, device,
                            {.batch_size = workload.batch_size,
                             .prompt = std::min(workload.prompt, workload.context),
                             .capacity = workload.context,
                             .dtype = workload.dtype,
                             .mode = workload.mode});
  CacheAccount account{.workload = workload,
                       .weights = {parameter_count(workload.config) * info(workload.dtype).size},
                       .cache = generator.cache_bytes(),
                       .working = {},
                       .peak = generator.predicted_peak(),
                       .per_token = gemma3_cache_bytes_per_token(workload.config, workload.dtype)};
  account.working = account.peak - account.weights - account.cache;
  return account;
}

int64_t longest_context(const CacheWorkload& workload, Device& device, Bytes budget) {
  const auto fits = [&](int64_t context) {
    CacheWorkload other = workload;
    other.context = context;
    return account_cache(other, device).peak <= budget;
  };
  int64_t longest = 0, too_long = workload.config.max_positions;
  if (fits(too_long)) return too_long;
  while (too_long - longest > 1) {
    const int64_t middle = longest + (too_long - longest) / 2;
    (fits(middle) ? longest : too_long) = middle;
  }
  return longest;
}

std::vector<CacheWorkload> expand_caches(const CacheAxes& axes) {
  std::vector<CacheWorkload> workloads;
  const DType dtype = parse_float_dtype(axes.dtype);
  if (dtype != DType::bf16 && dtype != DType::f32)
    throw Error(ErrorKind::usage,
                fmt::format("--dtype is {}, expected bf16 or fp32: `ridgeline generate` has no "
                            "other weights and caches",
                            axes.dtype),
                "give one of these");
  for (const std::string& word : axes.configs) {
    const Gemma3Config config = find_gemma3_config(word);
    check(config);
    std::vector<int64_t> contexts = axes.contexts;
    if (contexts.empty()) contexts = {std::min(kUsualContext, config.max_positions)};
    if (axes.contexts.empty() && config.max_positions > kUsualContext)
      contexts.push_back(config.max_positions);
    for (const std::string& mode : axes.modes)
      for (const int64_t context : contexts) {
        expect_positions(config, context);
        workloads.push_back({.config = config,
                             .config_word = word,
                             .batch_size = axes.batch_size,
                             .context = context,
                             .prompt = axes.prompt,
                             .dtype = dtype,
                             .mode = parse_mode(mode)});
      }
  }
  return workloads;
}

void account_caches(StudyRun& run, const std::vector<CacheWorkload>& workloads,
                    const SharedFlags& shared) {
  const Bytes budget = run.device.ledger().budget();
  std::vector<CacheRow> rows;
  std::vector<Record> records;
  for (size_t i = 0; i < workloads.size();) {
    const CacheWorkload& first = workloads[i];
    const int64_t longest = longest_context(first, run.device, budget);
    std::vector<CacheAccount> accounts;
    for (; i < workloads.size() && is_same_model(first, workloads[i]); ++i) {
      if (run.interrupted && run.interrupted()) throw Interrupted();
      accounts.push_back(account_cache(workloads[i], run.device));
      rows.push_back({accounts.back(), longest});
      records.push_back(record_of(rows.back(), run));
    }
    const std::string analysis = to_text(cache_table(accounts, budget)) +
                                 growth_sentence(accounts.front()) +
                                 longest_sentence(first, longest, budget);
    print("{}{}", rows.size() == accounts.size() ? "" : "\n", analysis);
    if (shared.dry_run) continue;
    const std::filesystem::path path =
        run.results_dir / "generate" /
        fmt::format("memory_{}_{}_{}_b{}.txt", first.config.name, info(first.dtype).name,
                    info(first.mode).name, first.batch_size);
    write_file_atomically(path, analysis);
    print("Written to {}.\n", path.string());
  }
  write_output(shared.output, records, cache_csv(rows, budget));
}

}  // namespace ridgeline
