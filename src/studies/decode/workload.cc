#include "studies/decode/workload.h"

#include <fmt/format.h>

#include "base/closest.h"
#include "base/error.h"
#include "base/print.h"

namespace ridgeline {
namespace {

constexpr LayerPartInfo kPartsOfLayers[] = {
    {Gemma3Part::attention, "attention"}, {Gemma3Part::mlp, "mlp"}, {Gemma3Part::layer, "layer"}};

// Whether a word is the first of two known ones. Throws a usage error for any other.
bool is_first(std::string_view word, std::string_view what, std::string_view first,
              std::string_view second) {
  if (word != first && word != second)
    throw unknown_name(word, {.what = what, .names = {std::string(first), std::string(second)}});
  return word == first;
}

}  // namespace

const Choices<LayerPartInfo> kLayerParts{"a part of a layer", kPartsOfLayers};

std::string_view name(Gemma3Layer kind) {
  return kind == Gemma3Layer::full ? "full" : "sliding";
}

std::vector<LayerWorkload> expand_matrix(const LayerMatrix& matrix) {
  std::vector<LayerWorkload> workloads;
  for (const std::string& word : matrix.configs) {
    const Gemma3Config config = find_gemma3_config(word);
    for (const std::string& dtype : matrix.dtypes)
      for (const std::string& mode : matrix.modes)
        for (const std::string& kind : matrix.kinds)
          for (const int64_t prompt : matrix.prompts)
            for (const std::string& part : matrix.parts)
              for (const std::string& phase : matrix.phases)
                for (const std::string& cache : matrix.caches)
                  for (const int64_t batch : matrix.batch_sizes)
                    workloads.push_back(
                        {.config = config,
                         .config_word = word,
                         .part = kLayerParts.find(part).part,
                         .kind = is_first(kind, "a kind of layer", "full", "sliding")
                                     ? Gemma3Layer::full
                                     : Gemma3Layer::sliding,
                         .decodes = is_first(phase, "a phase", "decode", "prefill"),
                         .has_cache = is_first(cache, "a setting of the cache", "on", "off"),
                         .prompt = prompt,
                         .batch_size = batch,
                         .dtype = parse_float_dtype(dtype),
                         .mode = parse_mode(mode)});
  }
  for (const LayerWorkload& each : workloads)
    if (each.prompt + 1 > each.config.max_positions)
      throw Error(ErrorKind::usage,
                  fmt::format("--prompt-length {} and a token more, expected at most the {} "
                              "positions of {}",
                              each.prompt, each.config.max_positions, each.config_word),
                  "shorten the prompt");
    else if (each.dtype == DType::tf32)
      throw Error(ErrorKind::usage, "a layer is stored in fp32, bf16 or fp16, not in tf32",
                  "give one of these as --dtype");
  return workloads;
}

Gemma3PartOptions part_options(const LayerWorkload& workload) {
  // The attention node does not support capped scores with a cache.
  const bool is_one_node = info(workload.mode).flash && !workload.config.score_cap;
  return {.part = workload.part,
          .kind = workload.kind,
          .batch_size = workload.batch_size,
          .tokens = workload.tokens(),
          .before = workload.first(),
          .has_cache = workload.has_cache,
          .dtype = workload.dtype,
          .attention = is_one_node ? AttentionForm::fused : AttentionForm::plain};
}

Graph layer_graph(const LayerWorkload& workload) {
  return gemma3_part_graph(workload.config, part_options(workload));
}

CompileOptions layer_compile_options(const LayerWorkload& workload) {
  return {.mode = workload.mode, .message = say_once};
}

Json workload_json(const LayerWorkload& workload) {
  const Gemma3Config& config = workload.config;
  Json json = {{"part", name(workload.part)},
               {"phase", workload.decodes ? "decode" : "prefill"},
               {"cache", workload.has_cache ? "on" : "off"},
               {"prompt_length", workload.prompt},
               {"batch_size", workload.batch_size},
               {"model_config", config.name},
               {"layer_kind", name(workload.kind)},
               {"hidden_size", config.hidden_size},
               {"intermediate_size", config.intermediate_size},
               {"heads", config.heads},
               {"key_heads", config.key_heads},
               {"head_dim", config.head_dim},
               {"dtype", info(workload.dtype).name}};
  if (workload.kind == Gemma3Layer::sliding) json["sliding_window"] = config.sliding_window;
  return json;
}

std::string label(const LayerWorkload& workload) {
  return fmt::format("{} {} cache={} L={} batch={} {} {} {}", name(workload.part),
                     workload.decodes ? "decode" : "prefill", workload.has_cache ? "on" : "off",
                     workload.prompt, workload.batch_size, workload.config.name,
                     info(workload.dtype).name, info(workload.mode).name);
}

std::string to_command(const LayerWorkload& workload) {
  return fmt::format(
      " --layer --model-config {} --part {} --phase {} --cache {} --layer-kind {} --prompt-length "
      "{} --batch-size {} --dtype {} --impl {}",
      workload.config_word, name(workload.part), workload.decodes ? "decode" : "prefill",
      workload.has_cache ? "on" : "off", name(workload.kind), workload.prompt, workload.batch_size,
      info(workload.dtype).name, info(workload.mode).name);
}

}  // namespace ridgeline
