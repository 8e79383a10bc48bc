#include "studies/generate/row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/file_io.h"
#include "base/print.h"
#include "base/sha256.h"
#include "measure/statistics.h"
#include "models/safetensors.h"
#include "studies/expected_time.h"
#include "studies/memory_watch.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

// Steps that are queued at once on a GPU; the text is printed after as many.
constexpr int64_t kQueuedSteps = 8;

// Prints ids as text if there is a tokenizer, else as numbers.
class TextOfTokens {
 public:
  TextOfTokens(const GenerateJob& job, const std::function<void(std::string_view)>& print)
      : job_(job), print_(print) {
    if (job.tokenizer) decoder_.emplace(*job.tokenizer);
  }

  void add(int32_t id) {
    if (!decoder_) return write(fmt::format("{}{}", text_.empty() ? "" : ",", id));
    if (job_.stops_at(id)) return;
    // A model's vocabulary may be larger than its tokenizer's. Such a token ends a character whose
    // bytes are not complete.
    write(id < job_.tokenizer->size() ? decoder_->add(id)
                                      : fmt::format("{}<{}>", decoder_->finish(), id));
  }
  std::string finish() {
    if (decoder_) write(decoder_->finish());
    return text_;
  }

 private:
  void write(const std::string& part) {
    text_ += part;
    if (print_ && !part.empty()) print_(for_terminal(part));
  }

  const GenerateJob& job_;
  const std::function<void(std::string_view)>& print_;
  std::optional<StreamDecoder> decoder_;
  std::string text_;
};

std::string hash_of(const std::vector<int32_t>& ids) {
  Sha256 hash;
  for (const int32_t id : ids) hash.add_field(fmt::to_string(id));
  constexpr size_t kBytesShown = 8;
  const Sha256::Digest digest = hash.finish();
  return fmt::format("{:02x}", fmt::join(digest.begin(), digest.begin() + kBytesShown, ""));
}

double milliseconds_since(double begin_s) {
  return (monotonic_s() - begin_s) * 1e3;
}

}  // namespace

std::string for_terminal(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte_at = [&](size_t at) {
      return at < text.size() ? static_cast<unsigned char>(text[at]) : 0;
    };
    const int byte = byte_at(i), next = byte_at(i + 1);
    const bool is_c1 = byte == 0xc2 && next >= 0x80 && next < 0xa0;  // two bytes of UTF-8
    const bool is_c0 = byte < 0x20 && byte != '\n' && byte != '\t';
    out += is_c0 || is_c1 || byte == 0x7f ? '?' : text[i];
    if (is_c1) ++i;
  }
  return out;
}

std::string_view implementation_of(const GenerateRow& row) {
  return row.peer.empty() ? info(row.mode).name : std::string_view(row.peer);
}

std::string label(const GenerateJob& job, const GenerateRow& row) {
  return fmt::format("{} {} batch={} {}", job.model, info(job.dtype).name, row.batch_size,
                     implementation_of(row));
}

GenerateStudy::GenerateStudy(const GenerateJob& job, Device& device, GenerateOptions options)
    : job_(job), device_(device), options_(std::move(options)) {}

GeneratorOptions GenerateStudy::generator_options(const GenerateRow& row) const {
  GeneratorOptions options{.batch_size = row.batch_size,
                           .prompt = static_cast<int64_t>(job_.prompt.size()),
                           .capacity = job_.capacity,
                           .dtype = job_.dtype,
                           .mode = row.mode,
                           .rules = job_.rules,
                           .seed = options_.row.seed,
                           .message = say_once};
  if (options_.row.stage)
    options.stage = [this](std::string_view what) { options_.row.stage(std::string(what)); };
  return options;
}

Record GenerateStudy::describe(const GenerateRow& row, const Record& blank) {
  Json workload = {{"model", job_.model},
                   {"weights", job_.weights ? "files" : "random"},
                   {"dtype", info(job_.dtype).name},
                   {"batch_size", row.batch_size},
                   {"prompt_tokens", job_.prompt.size()},
                   {"prompt_hash", hash_of(job_.prompt)},
                   {"max_new_tokens", job_.max_new_tokens},
                   {"capacity", job_.capacity},
                   {"temperature", job_.rules.temperature},
                   {"top_k", job_.rules.top_k},
                   {"top_p", job_.rules.top_p}};
  Record record = describe_row({.study = "generate",
                                .implementation = std::string(implementation_of(row)),
                                .workload = std::move(workload)},
                               options_.row, device_, blank);
  if (!row.peer.empty()) return record;
  planned_[row] = std::make_unique<Generator>(job_.config, device_, generator_options(row));
  record.memory.predicted_peak = planned_[row]->predicted_peak();
  return record;
}

double GenerateStudy::expected_s(const GenerateRow& row, const Record& described) const {
  constexpr double kFlopsPerWeight = 2;
  const auto weights = static_cast<double>(parameter_count(job_.config));
  const double bytes = weights * info(job_.dtype).size;
  const auto once = [&](double tokens_of_each) {
    const double tokens = tokens_of_each * static_cast<double>(row.batch_size);
    return expected_once_s({.flops = kFlopsPerWeight * weights * tokens,
                            .bytes = bytes,
                            .dtype = info(job_.dtype).name},
                           device_, described.machine);
  };
  constexpr double kWeightsPerS = 30e6;  // drawn or read per second
  const int prompts = options_.row.protocol.warmups + options_.row.protocol.iterations;
  return weights / kWeightsPerS + prompts * once(static_cast<double>(job_.prompt.size())) +
         static_cast<double>(job_.max_new_tokens) * once(1);
}

const std::filesystem::path& GenerateStudy::weights_folder() {
  if (!job_.folder.empty()) folder_ = job_.folder;
  if (!folder_.empty()) return folder_;
  written_.emplace();
  write_file_atomically(written_->path() / "config.json", gemma3_config_json(job_.config).dump());
  save_weights(
      written_->path() / "model.safetensors", gemma3_parameters(job_.config),
      [&](const Parameter& parameter) { return beginning_of(parameter, options_.row.seed); },
      {{"format", "pt"}});
  return folder_ = written_->path();
}

std::optional<Record> GenerateStudy::run_peer(const GenerateRow& row, Record described) {
  if (!peers_) peers_.emplace(device_, options_.row.interrupted);
  options_.row.begin("weights");
  PeerText text{.folder = weights_folder(),
                .prompt = job_.prompt,
                .new_tokens = job_.max_new_tokens,
                .batch_size = row.batch_size,
                .capacity = job_.capacity,
                .dtype = job_.dtype,
                .protocol = options_.row.protocol,
                .interrupted = options_.row.interrupted};
  options_.row.begin("the other library");
  std::optional<Record> record = peers_->run_text(text, std::move(described));
  if (!record || record->status != Status::ok) return record;
  TextOfTokens shown(job_, options_.print);
  for (const Json& id : *record->metrics->find_key("tokens")) shown.add(id.get<int32_t>());
  shown.finish();
  derive(row, *record);
  count_equal_tokens(row, *record);
  return record;
}

void GenerateStudy::count_equal_tokens(const GenerateRow& row, Record& record) const {
  const auto ours = ours_.find(row.batch_size);
  if (ours == ours_.end()) return;
  const auto theirs = record.metrics->find_key("tokens")->get<std::vector<int32_t>>();
  const auto [first, unused] = std::ranges::mismatch(ours->second, theirs);
  (*record.metrics)["equal_tokens"] = first - ours->second.begin();
}

std::optional<Record> GenerateStudy::run(const GenerateRow& row, Record described) {
  if (!row.peer.empty()) return run_peer(row, std::move(described));
  const std::unique_ptr<Generator> generator =
      planned_[row] ? std::move(planned_[row])
                    : std::make_unique<Generator>(job_.config, device_, generator_options(row));
  return try_row(std::move(described), label(job_, row), [&](Record& record) {
    expect_within_budget(generator->predicted_peak(), device_);
    const MemoryWatch memory(device_);
    generator->prepare();
    record.memory.predicted_peak = generator->predicted_peak();  // after a fallback, too
    options_.row.begin("weights");
    const double load_begin = monotonic_s();
    generator->load(job_.weights ? &*job_.weights : nullptr, options_.row.seed);
    const double load_s = monotonic_s() - load_begin;
    options_.row.begin("prompt");
    std::vector<int32_t> prompts, first;
    for (int64_t i = 0; i < row.batch_size; ++i)
      prompts.insert(prompts.end(), job_.prompt.begin(), job_.prompt.end());
    sample_row(record, device_, options_.row, {"prefill", "first_token"},
               [&](std::span<double> ms) {
                 const double begin = monotonic_s();
                 generator->set_prompt(prompts);
                 ms[0] = device_.time_ms([&] { generator->prefill(); });
                 first = generator->first_tokens();
                 ms[1] = milliseconds_since(begin);
               });
    record.metrics = Json{{"compile_s", generator->compile_seconds()}, {"load_s", load_s}};
    if (device_.facts().is_gpu()) {
      (*record.metrics)["resident"] = generator->steps().is_resident();
      (*record.metrics)["why_not_resident"] = generator->steps().why_not_resident();
    }
    decode(*generator, first, record);
    memory.after_run(record.memory);
    derive(row, record);
    ours_.try_emplace(row.batch_size,
                      record.metrics->find_key("tokens")->get<std::vector<int32_t>>());
  });
}

// Prints the first text as it comes; where it ends, all texts end.
void GenerateStudy::decode(Generator& generator, const std::vector<int32_t>& first,
                           Record& record) {
  TextOfTokens text(job_, options_.print);
  std::vector<int32_t> tokens;
  std::vector<std::vector<int32_t>> drawn(first.size());
  std::vector<double> step_ms;
  const auto most = static_cast<size_t>(job_.max_new_tokens);
  bool stopped = false;
  const auto take = [&](int32_t id) {
    tokens.push_back(id);
    text.add(id);
    stopped = job_.stops_at(id);
  };
  generator.begin_decoding(first, most > 1 ? options_.row.protocol.warmups : 0);
  take(first[0]);
  for (size_t i = 0; i < first.size(); ++i) drawn[i].push_back(first[i]);
  const int64_t at_once = device_.has_queue() ? kQueuedSteps : 1;
  while (!stopped && tokens.size() < most) {
    if (options_.row.interrupted && options_.row.interrupted()) throw Interrupted();
    const double begin = monotonic_s();
    std::vector<int32_t> ids;
    if (job_.rules.is_greedy()) {
      ids = generator.greedy_steps(std::min(at_once, static_cast<int64_t>(most - tokens.size())));
    } else {
      const std::vector<int32_t> of_each = generator.sampled_step();
      for (size_t i = 0; i < drawn.size(); ++i) drawn[i].push_back(of_each[i]);
      ids = {of_each[0]};
    }
    step_ms.push_back(milliseconds_since(begin) / static_cast<double>(ids.size()));
    for (const int32_t id : ids)
      if (!stopped) take(id);
  }
  const std::string whole = text.finish();
  if (!step_ms.empty()) record.series.push_back({"decode", summarize(step_ms), step_ms});
  Json& metrics = *record.metrics;
  metrics["new_tokens"] = tokens.size();
  metrics["stopped_by"] = stopped ? "end of text" : "max_new_tokens";
  metrics["tokens"] = tokens;
  if (first.size() > 1) {
    if (job_.rules.is_greedy()) drawn = generator.greedy_texts();
    for (std::vector<int32_t>& each : drawn) each.resize(tokens.size());
    metrics["texts"] = drawn;
  }
  if (job_.tokenizer) metrics["text"] = whole;
}

void GenerateStudy::derive(const GenerateRow& row, Record& record) const {
  Json& metrics = *record.metrics;
  const auto prompt = static_cast<int64_t>(job_.prompt.size());
  const auto texts = static_cast<double>(row.batch_size);
  const double prefill_ms = record.find_series("prefill")->statistics.median_ms;
  metrics["prefill"] =
      Json{{"tokens_per_s", texts * static_cast<double>(prompt) / prefill_ms * 1e3}};
  const Series* steps = record.find_series("decode");
  if (steps == nullptr) return;
  const double step_s = steps->statistics.median_ms / 1e3;
  const int64_t halfway = prompt + metrics["new_tokens"].get<int64_t>() / 2;
  const GeneratorOptions options = generator_options(row);
  const Bytes bytes = bytes_per_step(job_.config, options, halfway);
  const double rate = static_cast<double>(bytes.count) / step_s;
  Json of = {{"tokens_per_s", texts / step_s},
             {"bytes_per_token", static_cast<double>(bytes.count) / texts},
             {"gb_per_s", rate / 1e9}};
  const MemoryCeiling* level =
      options_.roofline ? options_.roofline->find_memory(bytes, false) : nullptr;
  if (level != nullptr && level->rate > 0) {
    // At a large batch, products may take longer than reading memory.
    const ComputeCeiling* top = options_.roofline->find_compute(info(job_.dtype).name);
    const double read_s = static_cast<double>(bytes.count) / level->rate;
    const double multiply_s =
        top != nullptr && top->rate > 0 ? 2 * macs_per_step(job_.config, options) / top->rate : 0;
    const double least_s = std::max(read_s, multiply_s);
    of.update({{"least_ms", 1e3 * least_s},
               {"roof_tokens_per_s", texts / least_s},
               {"roof_share", least_s / step_s},
               {"roof_level", level->level},
               {"roof_probe", level->probe},
               {"bound", name(multiply_s > read_s ? Bound::compute : Bound::memory)}});
  }
  metrics["decode"] = std::move(of);
}

}  // namespace ridgeline
