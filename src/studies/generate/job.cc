#include "studies/generate/job.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "base/error.h"
#include "base/parse_number.h"
#include "base/random.h"
#include "models/gemma3.h"
#include "models/gemma3_weights.h"
#include "text/chat.h"

namespace ridgeline {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kCapacityStep = 64;

Gemma3Config read_config(const GenerateFlags& flags) {
  if (!flags.model.empty() && !flags.model_config.empty())
    throw Error(ErrorKind::usage, "--model and --model-config both say which model",
                "give one of them");
  if (!flags.model.empty()) return read_gemma3_config(fs::path(flags.model) / "config.json");
  if (flags.model_config.empty())
    throw Error(ErrorKind::usage, "no model was named",
                "give --model FOLDER, or --model-config 270m --random-weights");
  return find_gemma3_config(flags.model_config);
}

bool has_weights(const fs::path& folder) {
  return fs::exists(folder / "model.safetensors") ||
         fs::exists(folder / "model.safetensors.index.json");
}

std::optional<WeightFiles> find_weights(const GenerateFlags& flags, const Gemma3Config& config,
                                        const std::function<void(const std::string&)>& message) {
  if (flags.random_weights) return std::nullopt;
  if (flags.model.empty())
    throw Error(ErrorKind::usage,
                fmt::format("--model-config {} has no weights", flags.model_config),
                "add --random-weights, or give --model FOLDER with model.safetensors in it");
  if (!has_weights(flags.model))
    throw Error(ErrorKind::usage,
                fmt::format("'{}' holds neither model.safetensors nor "
                            "model.safetensors.index.json",
                            flags.model),
                "download the weights, or add --random-weights");
  return open_gemma3_weights(flags.model, config, message);
}

std::optional<Tokenizer> find_tokenizer(const GenerateFlags& flags) {
  const fs::path folder = flags.model;
  if (flags.model.empty() ||
      (!fs::exists(folder / "tokenizer.model") && !fs::exists(folder / "tokenizer.json")))
    return std::nullopt;
  return Tokenizer::from_folder(folder);
}

std::vector<int32_t> parse_ids(const Words& words) {
  std::vector<int32_t> ids;
  for (const std::string& word : words) {
    const std::optional<int32_t> id = parse_number<int32_t>(word);
    if (!id)
      throw Error(ErrorKind::usage, fmt::format("--prompt-ids has '{}', expected a token id", word),
                  "write whole numbers, such as 2,17,901");
    ids.push_back(*id);
  }
  return ids;
}

std::vector<int32_t> encode(const GenerateFlags& flags, const GenerateJob& job) {
  if (!job.tokenizer)
    throw Error(ErrorKind::usage,
                flags.model.empty()
                    ? fmt::format("--prompt needs a tokenizer, and --model-config {} has none",
                                  flags.model_config)
                    : fmt::format("--prompt needs a tokenizer, and '{}' holds neither "
                                  "tokenizer.model nor tokenizer.json",
                                  flags.model),
                "give --prompt-ids 2,17,901, or a --model FOLDER with a tokenizer in it");
  if (flags.chat) return chat_prompt(*job.tokenizer, flags.prompt);
  std::vector<int32_t> ids = job.tokenizer->encode(flags.prompt);
  if (job.config.bos) ids.insert(ids.begin(), static_cast<int32_t>(*job.config.bos));
  return ids;
}

// The first id is the model's begin-of-text token, if it has one.
std::vector<int32_t> draw_ids(const GenerateFlags& flags, const Gemma3Config& config) {
  NormalRandom random(flags.seed, "prompt");
  std::vector<int32_t> ids(static_cast<size_t>(flags.prompt_length));
  const auto vocabulary = static_cast<uint64_t>(config.vocabulary);
  for (int32_t& id : ids) id = static_cast<int32_t>(random.next_bits() % vocabulary);
  if (config.bos && *config.bos < config.vocabulary) ids[0] = static_cast<int32_t>(*config.bos);
  return ids;
}

std::vector<int32_t> make_prompt(const GenerateFlags& flags, const GenerateJob& job) {
  const int ways = int{flags.gave_prompt} + int{flags.gave_ids} + int{flags.prompt_length > 0};
  if (ways != 1)
    throw Error(ErrorKind::usage,
                ways == 0
                    ? "no prompt was given"
                    : fmt::format("{} and {} both say how the text begins",
                                  flags.gave_prompt ? "--prompt" : "--prompt-ids",
                                  flags.prompt_length > 0 ? "--prompt-length" : "--prompt-ids"),
                "give one of --prompt TEXT, --prompt-ids 2,17,901 and --prompt-length 128");
  if (flags.prompt_length > 0) return draw_ids(flags, job.config);
  if (flags.chat && flags.gave_ids)
    throw Error(ErrorKind::usage, "--chat makes a turn of a text, and --prompt-ids are no text",
                "give --prompt TEXT, or leave --chat out");
  if (flags.gave_prompt ? flags.prompt.empty() : flags.prompt_ids.empty())
    throw Error(ErrorKind::usage,
                fmt::format("{} is empty", flags.gave_prompt ? "--prompt" : "--prompt-ids"),
                "a text begins with at least one token");
  const std::vector<int32_t> ids =
      flags.gave_ids ? parse_ids(flags.prompt_ids) : encode(flags, job);
  for (const int32_t id : ids)
    if (id < 0 || id >= job.config.vocabulary)
      throw Error(ErrorKind::usage,
                  fmt::format("the prompt has token {}, expected 0 to {}: the vocabulary of {}", id,
                              job.config.vocabulary - 1, job.model),
                  flags.gave_ids ? "write other ids" : "the tokenizer is another model's");
  return ids;
}

int64_t choose_capacity(const GenerateFlags& flags, const GenerateJob& job) {
  const auto prompt = static_cast<int64_t>(job.prompt.size());
  const int64_t needed = prompt + flags.max_new_tokens, most = job.config.max_positions;
  if (needed > most || flags.capacity > most)
    throw Error(ErrorKind::usage,
                fmt::format("{} are more than the {} positions that {} was made for",
                            needed > most ? fmt::format("{} tokens of the prompt and {} new ones",
                                                        prompt, flags.max_new_tokens)
                                          : fmt::format("--capacity {}", flags.capacity),
                            most, job.model),
                "give a shorter prompt, or fewer --max-new-tokens");
  if (flags.capacity == 0)
    return std::min((needed + kCapacityStep - 1) / kCapacityStep * kCapacityStep, most);
  if (flags.capacity < needed)
    throw Error(ErrorKind::usage,
                fmt::format("--capacity {} has no room for {} tokens of the prompt and {} new ones",
                            flags.capacity, prompt, flags.max_new_tokens),
                fmt::format("give at least {}, or leave it out", needed));
  return flags.capacity;
}

std::string in_quotes(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-+,:=";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace

bool GenerateJob::stops_at(int32_t id) const {
  return std::ranges::find(stops, int64_t{id}) != stops.end();
}

GenerateJob make_generate_job(const GenerateFlags& flags,
                              const std::function<void(const std::string&)>& message) {
  check(flags.rules);
  GenerateJob job{.config = read_config(flags), .model = {}};
  check(job.config);
  // The folder may end in a slash.
  job.model = flags.model.empty()
                  ? job.config.name
                  : fs::path(fs::path(flags.model) / "").parent_path().filename().string();
  job.weights = find_weights(flags, job.config, message);
  if (job.weights) job.folder = flags.model;
  if (flags.gave_prompt || !flags.model.empty()) job.tokenizer = find_tokenizer(flags);
  job.prompt = make_prompt(flags, job);
  job.stops = job.config.eos;
  if (flags.chat && job.tokenizer->end_of_turn())
    job.stops.push_back(*job.tokenizer->end_of_turn());
  job.max_new_tokens = flags.max_new_tokens;
  job.capacity = choose_capacity(flags, job);
  job.batch_sizes = flags.batch_sizes;
  job.dtype = parse_float_dtype(flags.dtype);
  job.rules = flags.rules;
  return job;
}

std::string to_command(const GenerateFlags& flags, const GenerateJob& job) {
  std::string text = flags.model.empty() ? " --model-config " + in_quotes(flags.model_config)
                                         : " --model " + in_quotes(flags.model);
  if (flags.random_weights) text += " --random-weights";
  text += flags.prompt_length > 0 ? fmt::format(" --prompt-length {}", flags.prompt_length)
          : flags.gave_ids        ? fmt::format(" --prompt-ids {}", fmt::join(job.prompt, ","))
                                  : " --prompt " + in_quotes(flags.prompt);
  if (flags.chat) text += " --chat";
  text += fmt::format(" --max-new-tokens {} --capacity {} --dtype {}", job.max_new_tokens,
                      job.capacity, flags.dtype);
  if (!job.rules.is_greedy())
    text += fmt::format(" --temperature {} --top-k {} --top-p {}", job.rules.temperature,
                        job.rules.top_k, job.rules.top_p);
  return text;
}

}  // namespace ridgeline
