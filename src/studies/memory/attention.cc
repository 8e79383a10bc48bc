#include "studies/memory/attention.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "autodiff/gradient.h"
#include "graph/layout.h"
#include "measure/growth.h"

namespace ridgeline {
namespace {

// Assigns tensors of the workload's graph to the group that counts them.
struct Grouping {
  std::string_view tensor;
  std::string_view group;
};

constexpr Grouping kGroups[] = {
    {"q", "inputs"},
    {"k", "inputs"},
    {"v", "inputs"},
    {"d_output", "inputs"},
    {"scores", "scores"},
    {"scaled_scores", "scores"},
    {"masked_scores", "scores"},
    {"positions", "mask"},
    {"causal_mask", "mask"},
    {"weights", "weights"},
    {"output", "output"},
    {"output.0", "output"},
    {"output.1", "log-sum-exp"},
    {"d_weights", "gradient of the weights"},
    {"d_masked_scores", "gradient of the scores"},
    {"d_scaled_scores", "gradient of the scores"},
    {"d_scores", "gradient of the scores"},
};

std::string group_of(const std::string& tensor) {
  for (const Grouping& grouping : kGroups)
    if (grouping.tensor == tensor) return std::string(grouping.group);
  return tensor;
}

void add(std::vector<MemoryItem>& items, const std::string& group, Bytes bytes) {
  for (MemoryItem& item : items)
    if (item.name == group) {
      item.bytes += bytes;
      return;
    }
  items.push_back({group, bytes});
}

Bytes total(const std::vector<MemoryItem>& items) {
  Bytes sum;
  for (const MemoryItem& item : items) sum += item.bytes;
  return sum;
}

Table breakdown(const std::string& title, const std::vector<MemoryItem>& items) {
  Table table{.title = title, .columns = {"tensors", "bytes", "size", "share"}, .rows = {}};
  const Bytes whole = total(items);
  for (const MemoryItem& item : items)
    table.rows.push_back({item.name, fmt::format("{}", item.bytes.count), to_string(item.bytes),
                          share(item.bytes, whole)});
  table.rows.push_back({"together", fmt::format("{}", whole.count), to_string(whole), "100.0 %"});
  return table;
}

bool reads(const Graph& graph, const Node& node, Value source) {
  const std::vector<Layout> places = layouts(graph);
  return std::ranges::any_of(
      node.inputs, [&](Value input) { return places[graph.index(input)].storage == source; });
}

// Names tensors that differentiation adds, which have no name in the graph.
std::string backward_name(const Graph& graph, const Lifetime& lifetime) {
  const Node& node = graph.node(lifetime.value);
  if (!node.name.empty()) return lifetime.name;
  switch (node.op) {
    case Op::softmax_gradient:
      return "d_scaled_scores";
    case Op::attention_gradient:
      return lifetime.value.output == 0 ? "d_q" : lifetime.value.output == 1 ? "d_k" : "d_v";
    case Op::matmul:
      // The gradient of k is transposed here. It may be as large as that of the weights, which
      // reads the gradient of the output.
      return reads(graph, node, graph.inputs()[3]) ? "d_weights" : "d_k";
    default:
      return "d_scores";
  }
}

// The group that counts a tensor.
std::string group_of(const Graph& graph, const Lifetime& lifetime) {
  const bool in_backward = lifetime.first_step >= int64_t{graph.stages()[1].begin};
  return group_of(in_backward ? backward_name(graph, lifetime) : lifetime.name);
}

std::string scaling_table(const AttentionConfig& config, const ScratchOf& scratch) {
  Table table{.title = "Growth with the sequence length (predicted)",
              .columns = {"seq_len", "naive saved", "naive peak", "flash saved", "flash peak"},
              .rows = {}};
  std::vector<Observation> naive_peaks, flash_peaks;
  for (int64_t seq_len = std::max<int64_t>(config.seq_len / 16, 1); seq_len <= config.seq_len * 4;
       seq_len *= 2) {
    if (is_too_large(config.batch_size * config.heads, seq_len)) break;
    AttentionConfig scaled = config;
    scaled.seq_len = seq_len;
    const AttentionMemory naive = account_attention(scaled, AttentionForm::plain, scratch);
    const AttentionMemory flash = account_attention(scaled, AttentionForm::fused, scratch);
    const auto at_length = [&](Bytes peak) {
      return exactly(static_cast<double>(seq_len), static_cast<double>(peak.count));
    };
    naive_peaks.push_back(at_length(naive.peak));
    flash_peaks.push_back(at_length(flash.peak));
    table.rows.push_back({fmt::format("{}", seq_len), to_string(naive.before_backward),
                          to_string(naive.peak), to_string(flash.before_backward),
                          to_string(flash.peak)});
  }
  std::string text = to_text(table);
  const auto naive = growth_at_end(naive_peaks), flash = growth_at_end(flash_peaks);
  if (naive && flash)
    text += fmt::format("naive peak grows as {}.\nflash peak grows as {}.\n",
                        in_words({&*naive, 1}, "S"), in_words({&*flash, 1}, "S"));
  return text;
}

}  // namespace

std::string share(Bytes part, Bytes whole) {
  return fmt::format("{:.1f} %",
                     100.0 * static_cast<double>(part.count) / static_cast<double>(whole.count));
}

std::string signed_percent(Bytes from, Bytes to) {
  return fmt::format("{:+.2f} %", 100.0 * static_cast<double>((to - from).count) /
                                      static_cast<double>(std::max<int64_t>(from.count, 1)));
}

bool is_too_large(int64_t heads, int64_t seq_len) {
  const auto length = static_cast<double>(seq_len);
  return static_cast<double>(heads) * length * length > 0x1p52;
}

std::string beside_measured(Bytes predicted_peak, const MemoryFacts& measured) {
  std::string text =
      fmt::format("Predicted peak {}, measured by the ledger {} ({})", to_string(predicted_peak),
                  to_string(*measured.peak), signed_percent(predicted_peak, *measured.peak));
  if (measured.process_peak_growth)
    text += fmt::format(", growth of the process {}", to_string(*measured.process_peak_growth));
  if (measured.driver_peak_growth)
    text +=
        fmt::format(", growth by the driver's count {}", to_string(*measured.driver_peak_growth));
  return text;
}

bool is_quadratic(const AttentionConfig& config, const Graph& graph, const Lifetime& lifetime) {
  constexpr std::string_view kQuadratic[] = {"scores", "mask", "weights", "gradient of the weights",
                                             "gradient of the scores"};
  const Shape& shape = graph.type(lifetime.value).shape;
  if (shape.rank() < 2 || shape.back(0) != config.seq_len || shape.back(1) != config.seq_len)
    return false;
  // Of heads as wide as the sequence is long, all tensors have this shape.
  return config.seq_len != config.head_dim ||
         std::ranges::find(kQuadratic, group_of(graph, lifetime)) != std::end(kQuadratic);
}

AttentionMemory account_attention(const AttentionConfig& config, AttentionForm form,
                                  const ScratchOf& scratch) {
  const Graph graph = attention_training_graph(config, form);
  const Schedule schedule = eager_schedule(graph);
  const MemoryProfile profile = memory(graph, schedule, scratch);
  const int64_t backward_begin = graph.stages()[1].begin;
  const auto group = [&](const Lifetime& lifetime) { return group_of(graph, lifetime); };
  AttentionMemory account;
  for (const Lifetime& lifetime : profile.lifetimes)
    add(lifetime.first_step >= backward_begin ? account.backward : account.forward, group(lifetime),
        lifetime.bytes);
  for (const Lifetime& lifetime : profile.alive_before(backward_begin))
    add(account.saved, group(lifetime), lifetime.bytes);
  for (const Lifetime& lifetime : profile.at_peak())
    add(account.at_peak, group(lifetime), lifetime.bytes);
  if (profile.peak_scratch > Bytes{})
    add(account.at_peak, "scratch of the kernel", profile.peak_scratch);
  const uint32_t peak_node = schedule.steps[profile.peak_step].node;
  account.peak_moment = fmt::format("{} of the {} pass", info(graph.nodes()[peak_node].op).name,
                                    profile.peak_step >= backward_begin ? "backward" : "forward");
  account.before_backward = profile.stage_end[0];
  account.peak = profile.peak;
  return account;
}

RecomputeEffect recompute_weights(const AttentionConfig& config, const ScratchOf& scratch) {
  const TensorType type{config.dtype,
                        {config.batch_size * config.heads, config.seq_len, config.head_dim}};
  Graph graph;
  const std::array sources = {input(graph, "q", type), input(graph, "k", type),
                              input(graph, "v", type)};
  const Tensor d_output = input(graph, "d_output", type);
  const Tensor output = plain_attention(sources[0], sources[1], sources[2], config.causal);

  // Forward alone keeps only its output.
  Graph forward = graph;
  forward.mark_output("output", output.value());
  const MemoryProfile before = memory(forward, eager_schedule(forward), scratch);

  // Backward first runs forward again, while the first output is still live.
  const Cotangent cotangent{output, d_output};
  for (const Tensor& d_source : gradient({&cotangent, 1}, sources))
    graph.mark_output("gradient", d_source.value());
  const MemoryProfile after = memory(graph, eager_schedule(graph), scratch);
  return {before.stage_end[0], std::max(before.peak, after.peak + byte_size(type))};
}

std::string memory_analysis(const AttentionConfig& config, const MemoryFacts& measured,
                            const ScratchOf& scratch) {
  const AttentionMemory naive = account_attention(config, AttentionForm::plain, scratch);
  const AttentionMemory flash = account_attention(config, AttentionForm::fused, scratch);
  const RecomputeEffect recompute = recompute_weights(config, scratch);
  std::string text = fmt::format(
      "Memory of attention: batch {}, heads {}, sequence {}, width {}, {}{}\n"
      "{} is the size of one S x S tensor; inputs count q, k, v and the gradient of the "
      "output.\n\n",
      config.batch_size, config.heads, config.seq_len, config.head_dim, info(config.dtype).name,
      config.causal ? ", causal" : "",
      to_string(byte_size(
          {config.dtype, {config.batch_size * config.heads, config.seq_len, config.seq_len}})));
  text += to_text(breakdown("Forward: everything it computes or reads", naive.forward)) + '\n';
  text += to_text(breakdown("Saved for backward", naive.saved)) + '\n';
  text += to_text(breakdown("Backward: the gradients it computes", naive.backward)) + '\n';
  text +=
      to_text(breakdown(fmt::format("The worst moment: {}", naive.peak_moment), naive.at_peak)) +
      '\n';
  if (measured.peak) text += beside_measured(naive.peak, measured) + ".\n\n";
  text += scaling_table(config, scratch) + '\n';
  Table changes{.title = "What would change it (computed from the same graph)",
                .columns = {"method", "saved for backward", "peak", "peak against naive"},
                .rows = {}};
  const auto row = [&](const char* method, Bytes saved, Bytes peak) {
    changes.rows.push_back({method, to_string(saved), to_string(peak), share(peak, naive.peak)});
  };
  row("naive", naive.before_backward, naive.peak);
  row("weights recomputed in backward", recompute.before_backward, recompute.peak);
  row("flash attention", flash.before_backward, flash.peak);
  text += to_text(changes);
  const Bytes freed = naive.before_backward - recompute.before_backward;
  text += fmt::format(
      "\nRecomputing the weights frees {} between forward and backward, {}.\n", to_string(freed),
      recompute.peak < naive.peak
          ? fmt::format("and lowers the worst moment by {}", to_string(naive.peak - recompute.peak))
          : "but does not lower the worst moment: the S x S tensors exist\nwhile "
            "they are used");
  text +=
      "Flash attention works on tiles of the S x S tensors, and keeps one log-sum-exp per query "
      "instead.\n";
  return text;
}

}  // namespace ridgeline
