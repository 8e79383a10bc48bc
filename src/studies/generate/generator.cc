#include "studies/generate/generator.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.h"
#include "kernels/host_values.h"

namespace ridgeline {
namespace {

constexpr const char* kTokens = "tokens";  // the only input that the graphs do not share

Gemma3CacheOptions cache_options(const Gemma3Config& config, const GeneratorOptions& options,
                                 int64_t tokens) {
  const bool greedy = options.rules.is_greedy();
  // The attention node has no capped scores over a cache, and modes without flash show every op.
  const bool fused = info(options.mode).flash && !config.score_cap;
  return {.batch_size = options.batch_size,
          .tokens = tokens,
          .capacity = options.capacity,
          .chunk = 1,
          .dtype = options.dtype,
          .attention = fused ? AttentionForm::fused : AttentionForm::plain,
          .greedy = greedy,
          .history = greedy ? options.capacity : 0};
}

CompileOptions compile_options(const GeneratorOptions& options) {
  return {.mode = options.mode, .stage = options.stage, .message = options.message};
}

Trace trace_of(Graph (*graph)(const Gemma3Config&, const Gemma3CacheOptions&),
               const Gemma3Config& config, const Gemma3CacheOptions& options) {
  return [=](const Rewrite& forward) { return forward(graph(config, options)); };
}

Bytes shared_bytes(const Graph& graph) {
  Bytes sum;
  for (const Value input : graph.inputs())
    if (graph.name(input) != kTokens) sum += byte_size(graph.type(input));
  return sum;
}

// The name of a dtype in safetensors files.
std::string_view stored_name(DType dtype) {
  return dtype == DType::bf16 ? "BF16" : dtype == DType::f32 ? "F32" : "";
}

TensorView ints(void* data, int64_t count) {
  return {data, DType::i32, {count}, {1}};
}

}  // namespace

Bytes bytes_per_step(const Gemma3Config& config, const GeneratorOptions& options,
                     int64_t cached_tokens) {
  int64_t elements = parameter_count(config);
  // Of an embedding that is not also the head, only a row per text is read.
  if (!config.tied_head) elements -= config.vocabulary * config.hidden_size;
  Gemma3CacheOptions cached = cache_options(config, options, 1);
  cached.capacity = std::min(cached.capacity, cached_tokens);
  return Bytes{elements * info(options.dtype).size} + gemma3_cache_bytes(config, cached);
}

double macs_per_step(const Gemma3Config& config, const GeneratorOptions& options) {
  const Graph graph =
      lower(trace_of(gemma3_decode_graph, config, cache_options(config, options, 1)),
            {.mode = options.mode})
          .graph;
  return stage_cost(graph, graph.stages()[0]).macs;
}

Generator::Generator(const Gemma3Config& config, Device& device, GeneratorOptions options)
    : config_(config),
      device_(device),
      options_(std::move(options)),
      prefill_(
          trace_of(gemma3_prefill_graph, config, cache_options(config, options_, options_.prompt)),
          device, compile_options(options_)),
      decode_(trace_of(gemma3_decode_graph, config, cache_options(config, options_, 1)), device,
              compile_options(options_)),
      sampler_(options_.rules, options_.seed) {}

// Plans hold their memory from prepare() on; a graph without a plan allocates as it runs.
Bytes Generator::predicted_peak() const {
  const Bytes prefill = prefill_.predicted_peak(), decode = decode_.predicted_peak();
  if (decode_.plan()) return prefill + decode - shared_bytes(decode_.graph());
  const Bytes tokens{options_.batch_size * info(DType::i32).size};
  return std::max(prefill + tokens, decode);
}

Bytes Generator::cache_bytes() const {
  return gemma3_cache_bytes(config_, cache_options(config_, options_, 1));
}

void Generator::prepare() {
  prefill_.release();
  decode_.release();
  shared_.clear();
  Bindings bindings;
  for (const Value input : decode_.graph().inputs()) {
    const std::string name = decode_.graph().name(input);
    if (name == kTokens) continue;
    shared_[name] = device_.ledger().allocate(byte_size(decode_.graph().type(input)), name);
    bindings[name] = shared_[name].data();
  }
  for (const Value input : prefill_.graph().inputs()) {
    const std::string name = prefill_.graph().name(input);
    const auto found = shared_.find(name);
    const bool fits =
        found != shared_.end() && found->second.bytes() == byte_size(prefill_.graph().type(input));
    if (name != kTokens && !fits)
      throw Error(ErrorKind::internal,
                  fmt::format("prompts and steps do not share the tensor '{}'", name));
  }
  decode_.prepare(bindings);
  prefill_.prepare(bindings);
}

void Generator::load(const WeightFiles* files, uint64_t seed) {
  HostThreads threads(device_);
  const RangeRunner in_parallel = threads.runner();
  const std::vector<Parameter> parameters = gemma3_parameters(config_);
  const UseWeights use = [&](const Parameter& parameter, std::span<const float> values) {
    upload_rounded(device_, decode_.input(parameter.name), values, in_parallel);
  };
  if (files == nullptr) {
    draw_parameters(parameters, seed, in_parallel, use);
  } else {
    check_weights(*files, parameters);
    for (const Parameter& parameter : parameters)
      if (files->find(parameter.name)->dtype == stored_name(options_.dtype))
        device_.upload(decode_.input(parameter.name), files->read(parameter.name).data());
      else
        use(parameter, files->read_floats(parameter.name));
  }
  fill_tables(in_parallel);
  for (const Value input : decode_.graph().inputs()) {
    const Role role = decode_.graph().input_info(input).role;
    const std::string name = decode_.graph().name(input);
    if (role == Role::cache || name == "history") device_.clear(decode_.input(name));
  }
}

void Generator::fill_tables(const RangeRunner& in_parallel) {
  for (const Gemma3Layer layer : std::set(config_.layers.begin(), config_.layers.end())) {
    const RopeValues values = gemma3_rope_values(config_, layer, options_.capacity);
    const std::string scope(table_scope(layer));
    upload_rounded(device_, decode_.input(scope + ".cos"), values.cos, in_parallel);
    upload_rounded(device_, decode_.input(scope + ".sin"), values.sin, in_parallel);
  }
}

void Generator::set_position(int64_t position) {
  const auto value = static_cast<int32_t>(position);
  device_.upload(ints(shared_.at("position").data(), 1), &value);
  position_ = position;
}

void Generator::set_tokens(const std::vector<int32_t>& ids) {
  device_.upload(ints(decode_.input(kTokens).data, options_.batch_size), ids.data());
}

void Generator::set_prompt(std::span<const int32_t> ids) {
  const int64_t expected = options_.batch_size * options_.prompt;
  if (static_cast<int64_t>(ids.size()) != expected)
    throw Error(ErrorKind::internal,
                fmt::format("{} ids of prompts, expected {}", ids.size(), expected));
  device_.upload(ints(prefill_.input(kTokens).data, expected), ids.data());
  set_position(0);
}

void Generator::prefill() {
  prefill_.run();
  position_ = options_.prompt;
}

std::vector<float> Generator::logits(const Executable& executable) const {
  const TensorView view = executable.output("logits");
  const int64_t count = element_count(view.shape);
  std::vector<float> values(static_cast<size_t>(count));
  if (info(view.dtype).size == sizeof(float)) {
    device_.download({view.data, view.dtype, {count}, {1}}, values.data());
    return values;
  }
  std::vector<uint16_t> stored(values.size());
  device_.download({view.data, view.dtype, {count}, {1}}, stored.data());
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = load_one(view.dtype, stored.data(), static_cast<int64_t>(i));
  return values;
}

void Generator::for_each_text(const Executable& executable,
                              const std::function<void(std::span<const float>)>& use) const {
  const std::vector<float> all = logits(executable);
  const auto of_one = static_cast<size_t>(config_.vocabulary);
  for (size_t at = 0; at < all.size(); at += of_one) use(std::span(all).subspan(at, of_one));
}

std::vector<int32_t> Generator::drawn_from(const Executable& executable) {
  std::vector<int32_t> ids;
  for_each_text(executable,
                [&](std::span<const float> text) { ids.push_back(sampler_.next(text)); });
  return ids;
}

std::vector<int32_t> Generator::first_tokens() {
  if (!options_.rules.is_greedy()) {
    sampler_ = TokenSampler(options_.rules, options_.seed);
    return drawn_from(prefill_);
  }
  std::vector<int32_t> ids(static_cast<size_t>(options_.batch_size));
  device_.download(ints(prefill_.output("next").data, options_.batch_size), ids.data());
  return ids;
}

void Generator::begin_decoding(const std::vector<int32_t>& first, int warmups) {
  for_each_text(prefill_, check_logits);
  prefill_.release();
  // Repeating a step overwrites the same slots of the caches.
  for (int i = 0; i < warmups; ++i) {
    set_position(options_.prompt);
    set_tokens(first);
    decode_.run();
  }
  set_position(options_.prompt);
  set_tokens(first);
  device_.synchronize();
}

std::vector<int32_t> Generator::greedy_steps(int64_t steps) {
  decode_.run_times(static_cast<int>(steps));
  // The input token of position p is history[p - 1], so the next one is history[p].
  std::vector<int32_t> ids(static_cast<size_t>(steps));
  auto* history = static_cast<int32_t*>(shared_.at("history").data());
  device_.download(ints(history + position_, steps), ids.data());
  position_ += steps;
  return ids;
}

std::vector<std::vector<int32_t>> Generator::greedy_texts() {
  const auto count = static_cast<size_t>(position_ - options_.prompt + 1);
  std::vector<std::vector<int32_t>> texts(static_cast<size_t>(options_.batch_size));
  auto* history = static_cast<int32_t*>(shared_.at("history").data()) + options_.prompt - 1;
  for (std::vector<int32_t>& text : texts) {
    text.resize(count);
    device_.download(ints(history, static_cast<int64_t>(count)), text.data());
    history += options_.capacity;
  }
  return texts;
}

std::vector<int32_t> Generator::sampled_step() {
  decode_.run();
  ++position_;
  const std::vector<int32_t> ids = drawn_from(decode_);
  set_tokens(ids);
  return ids;
}

}  // namespace ridgeline
