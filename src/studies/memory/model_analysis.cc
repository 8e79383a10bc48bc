#include "studies/memory/model_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "measure/growth.h"
#include "studies/model/program.h"

namespace ridgeline {
namespace {

constexpr Bytes kUnlimited{std::numeric_limits<int64_t>::max()};

// Shows several moments side by side: gradients appear while activations are released.
Table breakdown(const ModelMemoryRow& row) {
  const ModelMemory& memory = row.memory;
  Table table{.title = fmt::format("{}, {}: the worst moment, {}", info(row.workload.mode).name,
                                   info(row.scenario).name, memory.peak_moment),
              .columns = {"tensors", "bytes", "size", "share"},
              .rows = {}};
  std::vector<const HeldMemory*> others = {&memory.at_begin};
  table.columns.push_back("at the start");
  if (row.scenario != Scenario::forward) {
    others.insert(others.end(), {&memory.before_backward, &memory.after_backward});
    table.columns.insert(table.columns.end(), {"before backward", "after backward"});
  }
  const auto add = [&](std::string_view name, const auto& of) {
    const Bytes bytes = of(memory.at_peak);
    std::vector<std::string> cells = {std::string(name), fmt::format("{}", bytes.count),
                                      to_string(bytes), share(bytes, memory.peak())};
    bool is_there = bytes.count > 0;
    for (const HeldMemory* other : others) {
      cells.push_back(to_string(of(*other)));
      is_there = is_there || of(*other).count > 0;
    }
    if (is_there) table.rows.push_back(std::move(cells));
  };
  for (const MemoryKindInfo& kind : memory_kinds())
    add(kind.summary, [&](const HeldMemory& held) { return held[kind.kind]; });
  add("together", [](const HeldMemory& held) { return held.total(); });
  return table;
}

std::string breakdown_text(const ModelMemoryRow& row, Bytes budget) {
  std::string text = to_text(breakdown(row));
  const Bytes peak = row.memory.peak();
  text +=
      peak <= budget
          ? fmt::format("Fits: {} of a budget of {}.\n", to_string(peak), to_string(budget))
          : fmt::format("Does not fit: the predicted peak of {} is {} above the budget of {}.\n",
                        to_string(peak), to_string(peak - budget), to_string(budget));
  if (row.memory.recomputed > 0)
    text += fmt::format("{} results are computed again in backward, to take no more than that.\n",
                        row.memory.recomputed);
  if (row.measured.peak) text += beside_measured(peak, row.measured) + ".\n";
  return text;
}

// Predicts growth and alternatives without the budget, so that nothing is recomputed to fit it.
class Alternatives {
 public:
  Alternatives(const ModelMemoryRow& row, Device& device, const AdamWOptions& optimizer)
      : row_(row), device_(device), optimizer_(optimizer) {}

  ModelMemory memory(Mode mode, int64_t context_length) const {
    ModelWorkload workload = row_.workload;
    workload.mode = mode;
    workload.config.context_length = context_length;
    return memory(workload, kUnlimited);
  }
  // How the row's model runs instead.
  struct Means {
    Mode mode = Mode::compiled;
    int64_t checkpoint_blocks = 0;
    int64_t micro_batches = 1;
    Bytes budget = kUnlimited;
  };
  ModelMemory memory(const Means& means) const {
    ModelWorkload workload = row_.workload;
    workload.mode = means.mode;
    workload.checkpoint_blocks = means.checkpoint_blocks;
    workload.micro_batches = means.micro_batches;
    return memory(workload, means.budget);
  }

  ModelMemory memory(const ModelWorkload& workload, Bytes budget) const {
    CompileOptions options = model_options(workload, device_);
    options.budget = budget;
    return model_memory(
        Executable(model_trace(workload, row_.scenario, optimizer_), device_, std::move(options)));
  }

  std::string growth() const {
    Table table{
        .title = fmt::format("Growth with the context length ({}, predicted, nothing recomputed)",
                             info(row_.scenario).name),
        .columns = {"context_length", "vanilla saved", "vanilla peak", "compiled saved",
                    "compiled peak"},
        .rows = {}};
    const TransformerConfig& config = row_.workload.config;
    const int64_t here = config.context_length;
    std::map<Mode, std::vector<Observation>> grown;
    for (int64_t length = std::max<int64_t>(here / 4, 1); length <= here * 4; length *= 2) {
      if (is_too_large(config.batch_size * config.heads, length)) break;
      std::vector<std::string> cells = {fmt::format("{}", length)};
      for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
        const ModelMemory memory = this->memory(mode, length);
        cells.push_back(to_string(memory.saved()));
        cells.push_back(to_string(memory.peak()));
        grown[mode].push_back(
            exactly(static_cast<double>(length), static_cast<double>(memory.saved().count)));
      }
      table.rows.push_back(std::move(cells));
    }
    std::string text = to_text(table);
    const auto vanilla = growth_at_end(grown[Mode::vanilla]),
               compiled = growth_at_end(grown[Mode::compiled]);
    if (vanilla && compiled)
      text += fmt::format("vanilla's forward leaves what grows as {}.\ncompiled's as {}.\n",
                          in_words({&*vanilla, 1}, "C"), in_words({&*compiled, 1}, "C"));
    return text;
  }

  std::string changes() const {
    Table table{.title = fmt::format("What would change it ({}, computed from the same model)",
                                     info(row_.scenario).name),
                .columns = {"method", "saved for backward", "peak", "peak against vanilla", "fits"},
                .rows = {}};
    const ModelMemory vanilla = memory({.mode = Mode::vanilla});
    const auto add = [&](const std::string& method, const ModelMemory& memory) {
      table.rows.push_back({method, to_string(memory.saved()), to_string(memory.peak()),
                            share(memory.peak(), vanilla.peak()),
                            memory.peak() <= device_.ledger().budget() ? "yes" : "no"});
    };
    add("vanilla", vanilla);
    add("compiled: flash, fused, one arena", memory(Means{}));
    if (row_.scenario == Scenario::forward) return to_text(table);
    add("compiled, cheap results computed again", memory({.budget = Bytes{0}}));
    add("vanilla, every block checkpointed",
        memory({.mode = Mode::vanilla, .checkpoint_blocks = 1}));
    add("compiled, every block checkpointed", memory({.checkpoint_blocks = 1}));
    if (const int64_t blocks = balanced_blocks(); blocks > 1)
      add(fmt::format("compiled, every {} blocks checkpointed", blocks),
          memory({.checkpoint_blocks = blocks}));
    for (const int64_t parts : {2, 4})
      if (row_.workload.config.batch_size % parts == 0)
        add(fmt::format("compiled, {} micro-batches", parts), memory({.micro_batches = parts}));
    std::string text = to_text(table);
    const double flops = model_forward_flops(row_.workload.config);
    const double of_head = head_flops(row_.workload.config);
    text += fmt::format(
        "Checkpointing computes the forward pass of all blocks twice: {:.1f} % more FLOPs of "
        "forward "
        "and backward.\n",
        100 * (flops - of_head) / (3 * flops));
    return text;
  }

 private:
  // sqrt(layers) blocks per checkpoint: as many checkpoints as blocks that one of them covers.
  int64_t balanced_blocks() const {
    return std::lround(std::sqrt(static_cast<double>(row_.workload.config.layers)));
  }

  // FLOPs of the logits in forward, which no block computes.
  static double head_flops(const TransformerConfig& config) {
    return 2.0 * static_cast<double>(config.batch_size * config.context_length) *
           static_cast<double>(config.d_model * config.vocabulary);
  }

  const ModelMemoryRow& row_;
  Device& device_;
  const AdamWOptions& optimizer_;
};

}  // namespace

ModelMemoryRow predict_memory(const ModelWorkload& workload, Scenario scenario, Device& device,
                              const AdamWOptions& optimizer) {
  return {workload, scenario,
          model_memory(Executable(model_trace(workload, scenario, optimizer), device,
                                  model_options(workload, device)))};
}

std::string model_memory_analysis(const std::vector<ModelMemoryRow>& rows, Device& device,
                                  const AdamWOptions& optimizer) {
  const ModelWorkload& first = rows.front().workload;
  const TransformerConfig& config = first.config;
  std::string text =
      fmt::format("Memory of {}: {:.2f} M parameters, batch {}, context {}, {}\n\n", config.name,
                  static_cast<double>(parameter_count(config)) / 1e6, config.batch_size,
                  config.context_length, info(first.precision).name);
  for (const ModelMemoryRow& row : rows)
    text += breakdown_text(row, device.ledger().budget()) + '\n';
  const auto largest = std::max_element(
      rows.begin(), rows.end(),
      [](const ModelMemoryRow& a, const ModelMemoryRow& b) { return a.scenario < b.scenario; });
  const Alternatives alternatives(*largest, device, optimizer);
  return text + alternatives.growth() + '\n' + alternatives.changes();
}

Table model_memory_csv(const std::vector<ModelMemoryRow>& rows, Bytes budget) {
  Table table{.title = "memory of models, in bytes",
              .columns = {"model_size", "context_length", "batch_size", "precision", "mode",
                          "scenario", "num_params"},
              .rows = {}};
  for (const MemoryKindInfo& kind : memory_kinds())
    table.columns.push_back(fmt::format("{}_bytes", kind.column));
  table.columns.insert(table.columns.end(),
                       {"saved_for_backward_bytes", "gradients_after_backward_bytes",
                        "predicted_peak_bytes", "budget_bytes", "fits", "peak_bytes",
                        "process_peak_growth_bytes", "driver_peak_growth_bytes"});
  const auto count = [](Bytes bytes) { return fmt::format("{}", bytes.count); };
  const auto if_there = [&](const std::optional<Bytes>& bytes) {
    return bytes ? count(*bytes) : std::string();
  };
  for (const ModelMemoryRow& row : rows) {
    const TransformerConfig& config = row.workload.config;
    std::vector<std::string> cells = {config.name,
                                      fmt::format("{}", config.context_length),
                                      fmt::format("{}", config.batch_size),
                                      std::string(info(row.workload.precision).name),
                                      std::string(info(row.workload.mode).name),
                                      std::string(info(row.scenario).name),
                                      fmt::format("{}", parameter_count(config))};
    for (const MemoryKindInfo& kind : memory_kinds())
      cells.push_back(count(row.memory.at_peak[kind.kind]));
    const Bytes peak = row.memory.peak();
    cells.insert(cells.end(), {count(row.memory.saved()),
                               count(row.memory.after_backward[MemoryKind::gradients]), count(peak),
                               count(budget), peak <= budget ? "True" : "False"});
    for (const auto& bytes :
         {row.measured.peak, row.measured.process_peak_growth, row.measured.driver_peak_growth})
      cells.push_back(if_there(bytes));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

}  // namespace ridgeline
