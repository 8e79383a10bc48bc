// The generate study: text from a Gemma-3 model, and the speed of prefill and decode.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "base/error.h"
#include "base/print.h"
#include "studies/generate/row.h"
#include "studies/generate/tables.h"
#include "studies/row.h"
#include "studies/stored_ceilings.h"
#include "studies/study.h"

namespace ridgeline {
namespace {

constexpr int64_t kMostTokens = int64_t{1} << 24;
constexpr int64_t kStudyPrompt = 32, kStudyTokens = 32;  // in `ridgeline study`

class Generate final : public Study {
 public:
  Generate() { shared.protocol = {.warmups = 1, .iterations = 3}; }

  void declare(Flags& flags) override {
    flags.add("--model", &asked_.model,
              "a folder with config.json, model.safetensors (or its index) and tokenizer.model or "
              "tokenizer.json");
    Words sizes = names_of(gemma3_sizes());
    flags.add("--model-config", &asked_.model_config,
              "instead: 270m, 1b, 4b, or a config.json; needs --random-weights",
              {.choices = std::move(sizes)});
    flags.add("--random-weights", &asked_.random_weights,
              "weights drawn by --seed: the speed of a model without its files");
    flags.add("--prompt", &asked_.prompt, "the text to go on from", {.given = &asked_.gave_prompt});
    flags.add("--prompt-ids", &asked_.prompt_ids,
              "instead: its token ids, such as 2,17,901; nothing is put in front of them",
              {.repeats = true, .given = &asked_.gave_ids});
    flags.add("--prompt-length", &asked_.prompt_length,
              "instead: so many token ids, drawn by --seed", {.range = FlagRange{1, kMostTokens}});
    flags.add("--batch-size", &asked_.batch_sizes,
              "texts that are continued side by side, all from the same prompt",
              {.shows_default = true});
    flags.add("--chat", &asked_.chat,
              "the prompt is a user's turn, for models that were trained to chat (-it)");
    flags.add("--max-new-tokens", &asked_.max_new_tokens,
              "tokens at most; the model may end its text before",
              {.shows_default = true, .range = FlagRange{1, kMostTokens}});
    flags.add("--temperature", &asked_.rules.temperature,
              "0: always the likeliest token; above: tokens are drawn by --seed",
              {.shows_default = true});
    flags.add("--top-k", &asked_.rules.top_k, "draw among so many of the likeliest; 0: all",
              {.shows_default = true});
    flags.add("--top-p", &asked_.rules.top_p,
              "draw among as few of the likeliest as have this probability together",
              {.shows_default = true});
    flags.add("--capacity", &asked_.capacity,
              "tokens that the caches have room for (default: prompt and new tokens, rounded up to "
              "a multiple of 64)",
              {.range = FlagRange{1, kMostTokens}});
    Words names = names_of(modes());
    for (const PeerImplementation& peer : kTextPeers) names.emplace_back(peer.name);
    add_implementations(flags, &implementations_,
                        "vanilla, fused, flash, compiled, and other libraries: see --list",
                        std::move(names))
        .rules.shows_default = true;
    flags.add("--dtype", &asked_.dtype, "of weights, caches and arithmetic: bf16 or fp32",
              {.shows_default = true, .choices = {"bf16", "fp32"}, .only_choices = true});
    add_protocol_flags(flags, &shared.protocol);
    add_device_flags(flags, &shared.device);
    add_sweep_flags(flags, &shared, {.list = "models and implementations", .no_verify = {}});
  }

  std::string list() const override {
    std::string text = "models of --model-config:\n";
    for (const Gemma3Config& config : gemma3_sizes())
      text +=
          ridgeline::listed(config.name, fmt::format("{} parameters, {} layers, up to {} tokens",
                                                     parameter_count(config), config.layer_count(),
                                                     config.max_positions));
    return text + "implementations:\n" + ridgeline::listed(modes()) + kTextPeers.list();
  }

  void check() override {
    std::vector<GenerateRow> rows;
    for (const std::string& name : implementations_) {
      const bool is_peer = kTextPeers.find(name) != nullptr;
      const GenerateRow row{.mode = is_peer ? Mode::compiled : parse_mode(name),
                            .peer = is_peer ? name : std::string()};
      if (is_peer && !asked_.rules.is_greedy())
        throw Error(ErrorKind::usage, fmt::format("{} decodes greedily here", name),
                    "leave --temperature out, or the implementation");
      if (std::ranges::find(rows, row) == rows.end()) rows.push_back(row);
    }
    // Ours come first, because the tokens of peers are compared with them.
    std::stable_partition(rows.begin(), rows.end(),
                          [](const GenerateRow& row) { return row.peer.empty(); });
    implementation_rows_ = std::move(rows);
    asked_.seed = shared.seed;
    job_.emplace(make_generate_job(asked_, [](const std::string& line) { say("{}", line); }));
  }

  std::vector<StudyRow> rows(StudyRun& run) override {
    ceilings_ = stored_ceilings(run.results_dir, run.device, run.blank.machine);
    if (ceilings_) ceilings_ = ceilings_->for_reading();
    GenerateOptions options{.row = row_options(run, shared),
                            .roofline = ceilings_ ? &*ceilings_ : nullptr};
    options.print = [this, hide = run.hide_progress](std::string_view text) {
      if (hide) hide();
      write_text(stdout, text);
      std::fflush(stdout);
      ends_line_ = text.ends_with('\n');
    };
    study_.emplace(*job_, run.device, std::move(options));
    std::vector<StudyRow> rows;
    for (GenerateRow row : implementation_rows_)
      for (const int64_t batch_size : job_->batch_sizes) {
        row.batch_size = batch_size;
        Record record = study_->describe(row, run.blank);
        record.command = fmt::format("ridgeline generate{}{} --batch-size {} --impl {}",
                                     shared_words(run, shared), to_command(asked_, *job_),
                                     batch_size, implementation_of(row));
        rows.push_back({record, label(*job_, row), study_->expected_s(row, record),
                        [this, row, record] { return run_row(row, record); }});
      }
    if (!shared.dry_run && !is_part_of_study_) refuse_what_cannot_fit(rows, run.device);
    return rows;
  }

  // Random weights of the smallest model; drawing them takes most of the time.
  bool set_up(const StudySetup& setup) override {
    is_part_of_study_ = true;
    asked_.model_config = "270m";
    asked_.random_weights = true;
    asked_.prompt_length = kStudyPrompt;
    asked_.max_new_tokens = kStudyTokens;
    asked_.batch_sizes = {1, 2, 4, 8, 16, 32, 64};
    if (!setup.device.facts().is_gpu()) asked_.batch_sizes = {1, 4, 16};
    if (setup.attempt > 0) asked_.batch_sizes = {1};
    return setup.attempt <= 1;
  }

  bool fits(Device& device) const override {
    const Generator largest(gemma3_config(asked_.model_config), device,
                            {.batch_size = asked_.batch_sizes.back(),
                             .prompt = asked_.prompt_length,
                             .capacity = asked_.prompt_length + asked_.max_new_tokens});
    return largest.predicted_peak() <= device.ledger().budget();
  }

 private:
  // If no row fits in memory, throws an error instead of showing a table without figures.
  static void refuse_what_cannot_fit(const std::vector<StudyRow>& rows, const Device& device) {
    // Peers have no prediction.
    const auto need = [](const StudyRow& row) {
      return row.described.memory.predicted_peak.value_or(Bytes{});
    };
    const StudyRow& smallest =
        *std::ranges::min_element(rows, {}, [&](const StudyRow& row) { return need(row); });
    try {
      expect_within_budget(need(smallest), device);
    } catch (const Error& error) {
      throw Error(error.kind(), fmt::format("{}: {}", smallest.label, error.message()),
                  "give a smaller --capacity or --batch-size, a shorter prompt, a smaller model or "
                  "a larger --memory-budget; `ridgeline memory --model-config` says how long a "
                  "context fits");
    }
  }

  std::optional<Record> run_row(const GenerateRow& row, const Record& record) {
    ends_line_ = true;
    std::optional<Record> result = study_->run(row, record);
    if (!ends_line_) print("\n");
    print("\n");
    return result;
  }

  GenerateFlags asked_;
  Words implementations_ = {"compiled"};
  std::vector<GenerateRow> implementation_rows_;  // one per implementation, without batch sizes
  std::optional<GenerateJob> job_;
  std::optional<Roofline> ceilings_;
  std::optional<GenerateStudy> study_;
  bool ends_line_ = true;          // whether the last print ended a line
  bool is_part_of_study_ = false;  // of `ridgeline study`: rows that do not fit are kept
};

}  // namespace

StudyInfo generate_study() {
  return {
      .name = "generate",
      .summary = "text from a Gemma-3 model as it comes, with tokens per second and memory",
      .examples =
          "Examples:\n"
          "  ridgeline generate --model gemma-3-270m-it --chat --prompt 'Why is the sky blue?'\n"
          "  ridgeline generate --model gemma-3-1b-pt --prompt 'Once upon' --temperature 0.8 "
          "--top-k 64 --top-p 0.95 --seed 7\n"
          "  ridgeline generate --model-config 270m --random-weights --prompt-ids 2,17,901 "
          "--impl vanilla,compiled",
      .make = make_study<Generate>,
      .csv = generate_csv,
      .title = "Text generation",
      .table = generate_summary,
      .notes = generate_notes,
      .in_reports = "Text, token by token",
      .sections = {generate_section},
      .turn = 13};
}

}  // namespace ridgeline
