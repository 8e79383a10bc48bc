#include "studies/decode/values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/larger.h"
#include "base/random.h"
#include "kernels/host_values.h"
#include "studies/host_tensors.h"

namespace ridgeline {
namespace {

constexpr int64_t kLongestPlain = 2048;  // in tokens; the plain form's scores grow as the square

// Identifies weights and results, whatever the batch, the cache and the mode.
std::string layer_identity(const LayerWorkload& workload) {
  const Json json = workload_json(workload);
  std::string key;
  for (const char* of : {"model_config", "hidden_size", "intermediate_size", "heads", "key_heads",
                         "head_dim", "dtype"})
    key += fmt::format("{} ", json[of].dump());
  return key;
}

}  // namespace

const std::vector<float>& LayerValues::weights(const LayerWorkload& workload,
                                               const std::string& name) {
  const std::string key = layer_identity(workload);
  if (weights_of_ != key) {
    weights_.clear();
    weights_of_ = key;
  }
  if (const auto found = weights_.find(name); found != weights_.end()) return found->second;
  for (const Parameter& each : gemma3_part_parameters(workload.config, Gemma3Part::layer)) {
    if (each.name != name) continue;
    std::vector<float> drawn = beginning_of(each, seed_);
    for (float& value : drawn) value = rounded_to(workload.dtype, value);
    return weights_[name] = std::move(drawn);
  }
  throw Error(ErrorKind::internal, fmt::format("a layer has no input '{}'", name));
}

std::vector<float> LayerValues::values_of(const LayerWorkload& workload, const TensorType& type,
                                          const std::string& name) {
  const auto count = static_cast<size_t>(element_count(type.shape));
  if (name == "position") return {static_cast<float>(workload.first())};
  if (name.starts_with("rope.")) {
    const RopeValues values = gemma3_rope_values(workload.config, workload.kind, type.shape[0]);
    return name.ends_with(".cos") ? values.cos : values.sin;
  }
  if (name.ends_with(".keys") || name.ends_with(".values")) return std::vector<float>(count);
  if (name != "x") return weights(workload, name);
  const int64_t width = workload.config.hidden_size;
  std::vector<float> values;
  values.reserve(count);
  std::vector<std::vector<float>> texts;
  for (int64_t text = 0; text < std::min(kLayerTexts, workload.batch_size); ++text) {
    NormalRandom random(seed_, fmt::format("text {}", text));
    std::vector<float>& drawn = texts.emplace_back();
    for (int64_t i = 0; i < (workload.last() + 1) * width; ++i)
      drawn.push_back(rounded_to(workload.dtype, static_cast<float>(random.next())));
    drawn.erase(drawn.begin(), drawn.begin() + workload.first() * width);
  }
  for (int64_t sequence = 0; sequence < workload.batch_size; ++sequence) {
    const std::vector<float>& text = texts[static_cast<size_t>(sequence % kLayerTexts)];
    values.insert(values.end(), text.begin(), text.end());
  }
  return values;
}

void LayerValues::fill(const LayerWorkload& workload, const Graph& graph, Executable& executable) {
  HostThreads threads(device_);
  const RangeRunner in_parallel = threads.runner();
  for (const Value value : graph.inputs()) {
    const std::string& name = graph.node(value).name;
    upload_rounded(device_, executable.input(name), values_of(workload, graph.type(value), name),
                   in_parallel);
  }
}

void LayerValues::load(const LayerWorkload& workload, Executable& executable) {
  fill(workload, layer_graph(workload), executable);
  if (workload.first() > 0 && workload.part != Gemma3Part::mlp) fill_caches(workload, executable);
}

void LayerValues::fill_caches(const LayerWorkload& workload, Executable& executable) {
  LayerWorkload prompt = workload;
  prompt.part = Gemma3Part::attention;
  prompt.decodes = false;
  prompt.batch_size = std::min(kLayerTexts, workload.batch_size);
  Gemma3PartOptions options = part_options(prompt);
  options.capacity = workload.prompt + 1;
  const Graph graph = gemma3_part_graph(workload.config, options);
  Executable prefill([&](const Rewrite& forward) { return forward(graph); }, device_,
                     layer_compile_options(workload));
  prefill.prepare();
  fill(prompt, graph, prefill);
  prefill.run();
  device_.synchronize();
  for (const char* name : {"layers.0.keys", "layers.0.values"}) {
    const TensorView to = executable.input(name);
    const auto of_batch = static_cast<size_t>(byte_size({to.dtype, to.shape}).count);
    const size_t of_one = of_batch / static_cast<size_t>(workload.batch_size);
    std::vector<char> stored(of_one * static_cast<size_t>(prompt.batch_size));
    device_.download(prefill.output(name), stored.data());
    std::vector<char> all;
    for (int64_t sequence = 0; sequence < workload.batch_size; ++sequence) {
      const auto from = stored.begin() + static_cast<std::ptrdiff_t>(
                                             of_one * static_cast<size_t>(sequence % kLayerTexts));
      all.insert(all.end(), from, from + static_cast<std::ptrdiff_t>(of_one));
    }
    device_.upload(to, all.data());
  }
}

std::vector<std::vector<double>> LayerValues::last_tokens(const LayerWorkload& workload,
                                                          const Executable& executable) const {
  const TensorView y = executable.output("y");
  std::vector<std::vector<double>> rows;
  for (int64_t sequence = 0; sequence < workload.batch_size; ++sequence)
    rows.push_back(read_values(device_, sub_tensor(y, (sequence + 1) * workload.tokens() - 1)));
  return rows;
}

std::vector<std::vector<double>> LayerValues::run_plain(LayerWorkload workload, DType dtype) {
  Gemma3PartOptions options = part_options(workload);
  options.dtype = dtype;
  options.attention =
      workload.tokens() > kLongestPlain ? AttentionForm::fused : AttentionForm::plain;
  const Graph graph = gemma3_part_graph(workload.config, options);
  Executable executable([&](const Rewrite& forward) { return forward(graph); }, device_, {});
  executable.prepare();
  fill(workload, graph, executable);
  executable.run();
  device_.synchronize();
  return last_tokens(workload, executable);
}

const LastTokens& LayerValues::expected(const LayerWorkload& workload) {
  const std::string key =
      fmt::format("{}{} {} {} {}", layer_identity(workload), name(workload.part),
                  name(workload.kind), workload.last(), std::min(kLayerTexts, workload.batch_size));
  if (const auto found = expected_.find(key); found != expected_.end()) return found->second;
  LayerWorkload whole = workload;
  whole.has_cache = false;
  whole.batch_size = std::min(kLayerTexts, workload.batch_size);
  LastTokens& tokens = expected_[key];
  tokens.texts = run_plain(whole, DType::f32);
  double error = 0, largest = 0;
  const auto same_dtype =
      is_16_bit(workload.dtype) ? run_plain(whole, workload.dtype) : tokens.texts;
  for (size_t text = 0; text < tokens.texts.size(); ++text)
    for (size_t i = 0; i < tokens.texts[text].size(); ++i) {
      error = larger(error, std::abs(same_dtype[text][i] - tokens.texts[text][i]));
      largest = std::max(largest, std::abs(tokens.texts[text][i]));
    }
  // In fp32 the oracle itself rounds: sums in another order differ from it.
  const double floor = (is_16_bit(workload.dtype) ? 1 : 64) * info(workload.dtype).epsilon;
  tokens.tolerance = 2 * error + floor * largest + 1e-12;
  return tokens;
}

}  // namespace ridgeline
