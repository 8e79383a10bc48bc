#include "studies/decode/tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "base/sort_by.h"
#include "measure/roofline_model.h"
#include "report/page/quiet.h"
#include "report/page/roofline_dots.h"
#include "report/record_columns.h"

namespace ridgeline {
namespace {

constexpr const char* kOfLayer = "forward";  // the only series

std::vector<const Record*> layer_rows(const RecordRefs& records) {
  std::vector<const Record*> rows = rows_of_study(records, "decode");
  std::erase_if(rows, [](const Record* record) { return !record->cost; });
  return rows;
}

std::optional<double> layer_metric(const Record& record, const char* key) {
  return metric_of(record, kOfLayer, key);
}

std::string layer_word(const Record& record, const char* key) {
  return metric_word(record, kOfLayer, key);
}

std::optional<double> median_ms(const Record& record) {
  return median_ms(record, kOfLayer);
}

double count_of(const Record& record, const char* key) {
  return number_in(record.workload, key).value_or(0);
}

double bytes_of(const Record& record) {
  return static_cast<double>(record.cost->forward.bytes.count);
}

// The rows of one model, kind of layer, dtype, device and implementation.
struct LayerGroup {
  std::string name;  // "270m bf16 compiled cpu"
  std::vector<const Record*> rows;

  struct Key {
    std::string part, phase, cache;
    double prompt = 0, batch = 0;
  };
  const Record* find(const Key& key) const {
    for (const Record* row : rows)
      if (text_of(row->workload, "part") == key.part &&
          text_of(row->workload, "phase") == key.phase &&
          text_of(row->workload, "cache") == key.cache &&
          count_of(*row, "prompt_length") == key.prompt &&
          count_of(*row, "batch_size") == key.batch)
        return row;
    return nullptr;
  }
  // Distinct values of a size, in increasing order.
  std::vector<double> values(const char* key) const {
    std::vector<double> found;
    for (const Record* row : rows) found.push_back(count_of(*row, key));
    return distinct(std::move(found));
  }
};

std::vector<LayerGroup> layer_groups(const std::vector<const Record*>& rows) {
  std::vector<LayerGroup> groups;
  std::map<std::string, size_t> numbers;
  for (const Record* row : rows) {
    std::string key = row->machine.fingerprint + row->settings.dump();
    std::string name;
    for (const std::string& part :
         {text_of(row->workload, "model_config"), text_of(row->workload, "dtype"),
          text_of(row->workload, "layer_kind"), row->implementation, row->device})
      name += (name.empty() ? "" : " ") + part;
    for (const char* size : {"hidden_size", "intermediate_size", "heads", "key_heads"})
      key += " " + text_of(row->workload, size);
    const auto [at, is_new] = numbers.emplace(key + name, groups.size());
    if (is_new) groups.push_back({name, {}});
    groups[at->second].rows.push_back(row);
  }
  return groups;
}

// Which roof limits a row: "memory's" or "arithmetic's".
std::string whose_roof(const Record& row) {
  return layer_word(row, "bound") == name(Bound::memory) ? "memory's" : "arithmetic's";
}

// "does 310 FLOPs per byte, above the ridge of 71"; after a row with the same ridge: "does 1.2,
// below it".
std::string against_ridge(const Record& row, const Record* before = nullptr) {
  const auto intensity = layer_metric(row, "intensity"), ridge = layer_metric(row, "ridge");
  if (!intensity) return {};
  if (!ridge) return fmt::format("does {:.3g} FLOPs per byte", *intensity);
  if (before && layer_metric(*before, "ridge") == ridge)
    return fmt::format("does {:.3g}, {} it", *intensity, *intensity < *ridge ? "below" : "above");
  return fmt::format("does {:.3g} FLOPs per byte, {} the ridge of {:.3g}", *intensity,
                     *intensity < *ridge ? "below" : "above", *ridge);
}

// ", so that its roof is arithmetic's"; empty if unknown.
std::string roof_words(const Record& row) {
  return layer_metric(row, "ridge") ? fmt::format(", so that its roof is {}", whose_roof(row)) : "";
}

// ", and reaches 62 % of memory's roof: memory bounds it", by the roofline's rule; a row above its
// roof says nothing of what bounds it. Empty if unknown.
std::string reached(const Record& row) {
  const auto least = layer_metric(row, "predicted_ms");
  const auto ms = median_of(row, "forward");
  if (!least || !ms || !(*ms > 0)) return {};
  const double share = *least / *ms;
  const bool is_memory = layer_word(row, "bound") == name(Bound::memory);
  if (share > kCeilingSlack)
    return fmt::format(", and runs at {:.0f} % of {} roof, which was measured too low{}",
                       100 * share, whose_roof(row),
                       is_memory ? ", or a cache held what it reads" : "");
  return fmt::format(", and reaches {:.0f} % of {} roof: {}", 100 * share, whose_roof(row),
                     share >= kAtTheRoof ? is_memory ? "memory bounds it" : "arithmetic bounds it"
                     : is_disturbed(row) ? "its own code or other work bounds it"
                                         : "its own code bounds it");
}

std::string bounds_note(const LayerGroup& group, double prompt, double batch) {
  const Record* prefill = group.find({"layer", "prefill", "on", prompt, batch});
  const Record* decode = group.find({"layer", "decode", "on", prompt, batch});
  if (!prefill || !decode) return {};
  return fmt::format(
      "prefill of the layer {}{}: a weight that is read serves {:.0f} tokens; decode with a cache "
      "{}{}: it serves {:.0f}, and every sequence reads its own keys and values",
      against_ridge(*prefill), roof_words(*prefill), prompt * batch, against_ridge(*decode),
      roof_words(*decode), batch);
}

// The batch B at which decode's MLP crosses the ridge. FLOPs are proportional to the batch; bytes
// are those of the weights plus a term in proportion: 2 macs B = ridge (weights + activations B).
struct Crossing {
  double ridge, weights, flops, bytes;  // FLOP/byte; bytes; FLOPs and bytes per sequence
  double first, last;                   // batches it was computed from

  std::optional<double> batch() const {
    const double gain = flops - ridge * bytes;
    if (!(gain > 0)) return std::nullopt;
    return std::ceil(ridge * weights / gain);
  }
};

std::optional<Crossing> find_crossing(const LayerGroup& group, double prompt) {
  const Record *few = nullptr, *many = nullptr;
  for (const double batch : group.values("batch_size"))
    if (const Record* row = group.find({"mlp", "decode", "on", prompt, batch}))
      (few ? many : few) = row;
  if (!few || !many) return std::nullopt;
  const auto ridge = layer_metric(*few, "ridge");
  if (!ridge) return std::nullopt;
  Crossing found{.ridge = *ridge,
                 .weights = 0,
                 .flops = 0,
                 .bytes = 0,
                 .first = count_of(*few, "batch_size"),
                 .last = count_of(*many, "batch_size")};
  found.bytes = (bytes_of(*many) - bytes_of(*few)) / (found.last - found.first);
  found.weights = bytes_of(*few) - found.bytes * found.first;
  found.flops = 2 * static_cast<double>(few->cost->forward.macs) / found.first;
  return found;
}

std::string crossing_note(const LayerGroup& group, double prompt) {
  const std::optional<Crossing> found = find_crossing(group, prompt);
  if (!found) return {};
  const std::string most = fmt::format("{}: decode's MLP", group.name);
  const std::optional<double> batch = found->batch();
  if (!batch)
    return fmt::format(
        "{} never crosses the ridge of {:.3g}: a sequence more brings {:.3g} FLOPs "
        "per byte of its own",
        most, found->ridge, found->flops / found->bytes);
  return fmt::format(
      "{} crosses the ridge of {:.3g} FLOPs per byte at batch {:.0f}: {:.3g} MB of weights are "
      "read whatever the batch, a sequence brings {:.3g} MFLOP and {:.3g} kB (from batch {:.0f} "
      "and {:.0f})",
      most, found->ridge, *batch, found->weights / 1e6, found->flops / 1e6, found->bytes / 1e3,
      found->first, found->last);
}

std::string cache_note(const LayerGroup& group, double prompt, double batch) {
  const Record* with = group.find({"layer", "decode", "on", prompt, batch});
  const Record* without = group.find({"layer", "decode", "off", prompt, batch});
  if (!with || !without) return {};
  const auto flops = [](const Record& row) { return static_cast<double>(row.cost->forward.flops); };
  std::string note = fmt::format(
      "without a cache a new token costs the layer {} times the FLOPs ({} MFLOP against {})",
      figures_text(flops(*without) / flops(*with)), figures_text(flops(*without) / 1e6),
      figures_text(flops(*with) / 1e6));
  const auto slow = median_ms(*without), fast = median_ms(*with);
  if (slow && fast && *fast > 0)
    note += fmt::format(" and took {:.3g} times as long ({:.4g} ms against {:.4g})", *slow / *fast,
                        *slow, *fast);
  return note;
}

std::string shares_note(const LayerGroup& group, double prompt, double batch) {
  std::string note;
  for (const char* phase : {"prefill", "decode"}) {
    const Record* attention = group.find({"attention", phase, "on", prompt, batch});
    const Record* mlp = group.find({"mlp", phase, "on", prompt, batch});
    if (!attention || !mlp) continue;
    const auto share = [](double a, double b) { return 100 * a / (a + b); };
    note += fmt::format(
        "{}in {} attention has {:.0f} % of the FLOPs and {:.0f} % of the bytes, the MLP the rest",
        note.empty() ? "" : "; ", phase,
        share(static_cast<double>(attention->cost->forward.flops),
              static_cast<double>(mlp->cost->forward.flops)),
        share(bytes_of(*attention), bytes_of(*mlp)));
    const auto ours = median_ms(*attention), theirs = median_ms(*mlp);
    if (ours && theirs)
      note += fmt::format(", and {:.0f} % of the time of both ({:.4g} and {:.4g} ms)",
                          share(*ours, *theirs), *ours, *theirs);
  }
  return note;
}

// The note about the smallest batch of each prompt that has one.
using NoteOfBatch = std::string (*)(const LayerGroup& group, double prompt, double batch);
void note_by_prompt(const LayerGroup& group, NoteOfBatch note_of, std::vector<std::string>& notes) {
  for (const double prompt : group.values("prompt_length"))
    for (const double batch : group.values("batch_size"))
      if (const std::string note = note_of(group, prompt, batch); !note.empty()) {
        notes.push_back(
            fmt::format("{}, prompt {:.0f}, batch {:.0f}: {}", group.name, prompt, batch, note));
        break;
      }
}

}  // namespace

Table layer_csv(const RecordRefs& records) {
  std::vector<RecordColumn> columns =
      workload_columns({"part", "phase", "cache", "prompt_length", "batch_size"});
  append<RecordRow>(columns, {{"macs", cost_cell(&PhaseCost::macs)},
                              {"flops", cost_cell(&PhaseCost::flops)},
                              {"bytes", cost_bytes_cell},
                              {"intensity", metric_cell("intensity")},
                              {"bound", word_cell("bound")},
                              {"predicted_ms", metric_cell("predicted_ms")},
                              {"median_ms", median_cell(kOfLayer)},
                              {"tokens_per_s", metric_cell("tokens_per_s")},
                              {"roof_pct", metric_cell("roof_share", "{:.6g}", 100)},
                              {"ridge", metric_cell("ridge")},
                              {"ceilings_from", word_cell("ceilings_from")},
                              {"implementation", implementation_cell},
                              {"device", device_cell},
                              {"mode", setting_cell("mode")}});
  append(columns,
         workload_columns({"model_config", "layer_kind", "hidden_size", "intermediate_size",
                           "heads", "key_heads", "head_dim", "dtype"}));
  append<RecordRow>(columns, {{"mean_ms", statistic_cell(&Statistics::mean_ms)},
                              {"std_ms", statistic_cell(&Statistics::std_ms)},
                              {"min_ms", statistic_cell(&Statistics::min_ms)},
                              {"median_low_ms", statistic_cell(&Statistics::median_low_ms)},
                              {"median_high_ms", statistic_cell(&Statistics::median_high_ms)},
                              {"peak_mb", memory_cell(&MemoryFacts::peak)},
                              {"max_error",
                               [](const RecordRow& row) {
                                 const Verification& of = row.record->verification;
                                 return of.checked && !of.tensors.empty()
                                            ? cell(of.tensors[0].max_error)
                                            : std::string();
                               }},
                              {"status", status_cell},
                              {"error", error_cell}});
  return table_of("decode", columns, record_rows(layer_rows(records), kOfLayer));
}

Table layer_summary(const RecordRefs& records) {
  return table_of<RecordRow>("parts of a decoder layer; +-% of the median within-run",
                             {{"model", workload_cell("model_config")},
                              {"kind", workload_cell("layer_kind")},
                              {"dtype", workload_cell("dtype")},
                              {"part", workload_cell("part")},
                              {"phase", workload_cell("phase")},
                              {"cache", workload_cell("cache")},
                              {"prompt", workload_cell("prompt_length")},
                              {"batch", workload_cell("batch_size")},
                              {"impl", implementation_cell},
                              {"MMAC", cost_cell(&PhaseCost::macs, "{:.4g}", 1e-6)},
                              {"MiB", cost_mebibytes_cell},
                              {"FLOP/byte", metric_cell("intensity", "{:.3g}")},
                              {"roof", word_cell("bound")},
                              {"least ms", metric_cell("predicted_ms", "{:.4f}")},
                              {"median ms", median_cell(kOfLayer, "{:.4f}")},
                              {"+-%", in_run_cell},
                              {"tokens/s", metric_cell("tokens_per_s", "{:.4g}")},
                              {"roof %", metric_cell("roof_share", "{:.1f}", 100)},
                              {"status", status_cell}},
                             record_rows(layer_rows(records), kOfLayer),
                             {"kind", "dtype", "model", "impl", "MMAC", "MiB", "tokens/s", "+-%"},
                             {"kind", "dtype", "model", "impl"});
}

std::string layer_bounds(const RecordRefs& records) {
  for (const LayerGroup& group : layer_groups(layer_rows(records)))
    for (const double prompt : group.values("prompt_length"))
      for (const double batch : group.values("batch_size")) {
        const Record* prefill = group.find({"layer", "prefill", "on", prompt, batch});
        const Record* decode = group.find({"layer", "decode", "on", prompt, batch});
        if (!prefill || !decode) continue;
        const std::optional<Crossing> crossing = find_crossing(group, prompt);
        return fmt::format(
            "prefill {}{}; decode {}{} (prompt {:.0f}, batch {:.0f}){}", against_ridge(*prefill),
            reached(*prefill), against_ridge(*decode, prefill), reached(*decode), prompt, batch,
            crossing && crossing->batch()
                ? fmt::format("; its MLP crosses the ridge at batch {:.0f}", *crossing->batch())
                : "");
      }
  return {};
}

std::vector<std::string> layer_notes(const RecordRefs& records) {
  const std::vector<const Record*> rows = layer_rows(records);
  std::vector<std::string> notes;
  const auto add = [&](const std::string& note) { add_once(notes, note); };
  for (const LayerGroup& group : layer_groups(rows)) {
    note_by_prompt(group, bounds_note, notes);
    // Decode's MLP does not depend on the prompt.
    const std::vector<double> prompts = group.values("prompt_length");
    if (!prompts.empty()) add(crossing_note(group, prompts.front()));
    note_by_prompt(group, cache_note, notes);
    note_by_prompt(group, shares_note, notes);
  }
  add(noise_note(rows));
  for (const Record* record : rows) {
    const std::string from = layer_word(*record, "ceilings_from");
    add(from.empty()
            ? fmt::format("no {} ceilings of this device are known: `ridgeline roofline "
                          "--dtype {}` measures them, and rows then have a bound, the "
                          "least time and their share of it",
                          text_of(record->workload, "dtype"), text_of(record->workload, "dtype"))
        : from == "measured"
            ? "least ms is by the ceilings that `ridgeline roofline` measured: the longer of "
              "products at the peak and of bytes at the bandwidth of memory"
            : "least ms is by the GPU's data sheet, not measured: `ridgeline roofline` measures "
              "ceilings");
    if (text_of(record->settings, "mode") == "hot")
      add("rows in mode hot find weights in a cache that holds a layer, and not a model: they may "
          "pass the roof of memory");
    add(record->cost->convention);
    if (record->status != Status::ok)
      add(fmt::format("{} {} {} prompt {} batch {}: {}: {}", text_of(record->workload, "part"),
                      text_of(record->workload, "phase"), text_of(record->workload, "cache"),
                      text_of(record->workload, "prompt_length"),
                      text_of(record->workload, "batch_size"), status_csv_word(record->status),
                      record->error));
  }
  return notes;
}

}  // namespace ridgeline
