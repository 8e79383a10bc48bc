#include "studies/generate/row.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "base/print.h"
#include "base/sha256.h"
#include "measure/statistics.h"
#include "studies/expected_time.h"
#include "studies/memory_watch.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

// Steps of a queue that the host does not wait for one by one; text comes in pieces of as many.
constexpr int64_t kQueuedSteps = 8;

// What a model says is a stranger's text: nothing that a terminal would obey.
std::string for_terminal(std::string text) {
  for (char& c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte < 0x20 && c != '\n' && c != '\t') || byte == 0x7f) c = '?';
  }
  return text;
}

// Ids as text where there is a tokenizer, else as numbers.
class TextOfTokens {
 public:
  TextOfTokens(const GenerateJob& job, const std::function<void(std::string_view)>& print)
      : job_(job), print_(print) {
    if (job.tokenizer) decoder_.emplace(*job.tokenizer);
  }

  void add(int32_t id) {
    if (!decoder_) return write(fmt::format("{}{}", text_.empty() ? "" : ",", id));
    if (job_.stops_at(id)) return;
    // Models may have more rows than their tokenizer has pieces.
    write(id < job_.tokenizer->size() ? decoder_->add(id) : fmt::format("<{}>", id));
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

std::string label(const GenerateJob& job, Mode mode) {
  return fmt::format("{} {} {}", job.model, info(job.dtype).name, info(mode).name);
}

GenerateStudy::GenerateStudy(const GenerateJob& job, Device& device, GenerateOptions options)
    : job_(job), device_(device), options_(std::move(options)) {}

std::unique_ptr<Generator> GenerateStudy::make_generator(Mode mode) const {
  GeneratorOptions options{.prompt = static_cast<int64_t>(job_.prompt.size()),
                           .capacity = job_.capacity,
                           .dtype = job_.dtype,
                           .mode = mode,
                           .rules = job_.rules,
                           .seed = options_.seed,
                           .message = say_once};
  if (options_.stage)
    options.stage = [this](std::string_view what) { options_.stage(std::string(what)); };
  return std::make_unique<Generator>(job_.config, device_, std::move(options));
}

Record GenerateStudy::describe(Mode mode, const Record& blank) {
  Json workload = {{"model", job_.model},
                   {"weights", job_.weights ? "files" : "random"},
                   {"dtype", info(job_.dtype).name},
                   {"prompt_tokens", job_.prompt.size()},
                   {"prompt_hash", hash_of(job_.prompt)},
                   {"max_new_tokens", job_.max_new_tokens},
                   {"capacity", job_.capacity},
                   {"temperature", job_.rules.temperature},
                   {"top_k", job_.rules.top_k},
                   {"top_p", job_.rules.top_p}};
  Record record = describe_row({.study = "generate",
                                .implementation = info(mode).name,
                                .workload = std::move(workload),
                                .seed = options_.seed,
                                .settings = options_.settings},
                               device_, blank);
  planned_[mode] = make_generator(mode);
  record.memory.predicted_peak = planned_[mode]->predicted_peak();
  return record;
}

double GenerateStudy::expected_s(const Record& described) const {
  constexpr double kFlopsPerWeight = 2;
  const auto weights = static_cast<double>(parameter_count(job_.config));
  const double bytes = weights * info(job_.dtype).size;
  const auto once = [&](double tokens) {
    return expected_once_s({.flops = kFlopsPerWeight * weights * tokens,
                            .bytes = bytes,
                            .dtype = info(job_.dtype).name},
                           device_, described.machine);
  };
  constexpr double kWeightsPerS = 30e6;  // drawn or read
  const int prompts = options_.protocol.warmups + options_.protocol.iterations;
  return weights / kWeightsPerS + prompts * once(static_cast<double>(job_.prompt.size())) +
         static_cast<double>(job_.max_new_tokens) * once(1);
}

std::optional<Record> GenerateStudy::run(Mode mode, Record described) {
  const std::unique_ptr<Generator> generator =
      planned_[mode] ? std::move(planned_[mode]) : make_generator(mode);
  return try_row(std::move(described), label(job_, mode), [&](Record& record) {
    expect_within_budget(generator->predicted_peak(), device_);
    const MemoryWatch memory(device_);
    generator->prepare();
    record.memory.predicted_peak = generator->predicted_peak();  // it may have fallen back
    if (options_.stage) options_.stage("weights");
    const double load_begin = monotonic_s();
    generator->load(job_.weights ? &*job_.weights : nullptr, options_.seed);
    const double load_s = monotonic_s() - load_begin;
    if (options_.stage) options_.stage("prompt");
    int32_t first = 0;
    sample_row(record, device_, {options_.protocol, options_.interrupted},
               {"prefill", "first_token"}, [&](std::span<double> ms) {
                 const double begin = monotonic_s();
                 generator->set_prompt(job_.prompt);
                 ms[0] = device_.time_ms([&] { generator->prefill(); });
                 first = generator->first_token();
                 ms[1] = milliseconds_since(begin);
               });
    record.metrics = Json{{"compile_s", generator->compile_seconds()}, {"load_s", load_s}};
    if (device_.facts().is_gpu()) {
      (*record.metrics)["resident"] = generator->steps().is_resident();
      (*record.metrics)["why_not_resident"] = generator->steps().why_not_resident();
    }
    decode(*generator, first, record);
    memory.after_run(record.memory);
    derive(*generator, record);
  });
}

void GenerateStudy::decode(Generator& generator, int32_t first, Record& record) {
  TextOfTokens text(job_, options_.print);
  std::vector<int32_t> tokens;
  std::vector<double> step_ms;
  const auto most = static_cast<size_t>(job_.max_new_tokens);
  bool stopped = false;
  const auto take = [&](int32_t id) {
    tokens.push_back(id);
    text.add(id);
    stopped = job_.stops_at(id);
  };
  generator.begin_decoding(first, most > 1 ? options_.protocol.warmups : 0);
  take(first);
  const int64_t at_once = device_.has_queue() ? kQueuedSteps : 1;
  while (!stopped && tokens.size() < most) {
    if (options_.interrupted && options_.interrupted()) throw Interrupted();
    const double begin = monotonic_s();
    const std::vector<int32_t> ids =
        job_.rules.is_greedy()
            ? generator.greedy_steps(std::min(at_once, static_cast<int64_t>(most - tokens.size())))
            : std::vector{generator.sampled_step()};
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
  if (job_.tokenizer) metrics["text"] = whole;
}

void GenerateStudy::derive(const Generator& generator, Record& record) const {
  Json& metrics = *record.metrics;
  const auto prompt = static_cast<int64_t>(job_.prompt.size());
  const double prefill_ms = record.find_series("prefill")->statistics.median_ms;
  metrics["prefill"] = Json{{"tokens_per_s", static_cast<double>(prompt) / prefill_ms * 1e3}};
  const Series* steps = record.find_series("decode");
  if (steps == nullptr) return;
  const double step_s = steps->statistics.median_ms / 1e3;
  const int64_t halfway = prompt + metrics["new_tokens"].get<int64_t>() / 2;
  const Bytes bytes = generator.bytes_per_step(halfway);
  const double rate = static_cast<double>(bytes.count) / step_s;
  Json of = {
      {"tokens_per_s", 1 / step_s}, {"bytes_per_token", bytes.count}, {"gb_per_s", rate / 1e9}};
  const MemoryCeiling* level =
      options_.roofline ? options_.roofline->find_memory(bytes, false) : nullptr;
  if (level != nullptr && level->rate > 0) {
    of["roof_share"] = rate / level->rate;
    of["roof_level"] = level->level;
  }
  metrics["decode"] = std::move(of);
}

}  // namespace ridgeline
