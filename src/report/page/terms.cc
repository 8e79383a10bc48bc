#include "report/page/terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <string_view>

namespace ridgeline {
namespace {

struct Explained {
  std::string_view word, meaning;
  std::string_view section = {};  // id of the only section with this meaning; empty: all
};

// In display order; a meaning for one section precedes the general one.
constexpr Explained kTerms[] = {
    {"roof", "the most FLOP/s that the machine allows"},
    {"own code",
     "below half of every roof: its own instructions hold it (latency, conversions, exp, short "
     "loops), not measured here"},
    {"intensity", "FLOPs per byte moved"},
    {"ridge point", "the intensity at which the roof turns from memory to arithmetic"},
    {"undecided", "samples cannot tell which is faster; those of more runs (--runs 5) may"},
    {"in doubt", "other work ran, its speed changed, or nothing tells"},
    {"disturbed", "other work ran on the machine"},
    {"S", "sequence length"},
    {"naive", "of products: a dot product for every element", "gemm"},
    {"naive", "of training: an all-reduce of each gradient, after backward", "ddp"},
    {"naive", "attention with S x S tensors"},
    {"vanilla", "one kernel per operation"},
    {"fused", "neighbouring operations in one kernel"},
    {"flash", "attention in one kernel, without S x S tensors"},
    {"compiled", "naive's graph, fused, with flash attention"},
    {"launch graph", "launches recorded once and started together"},
    {"busy time", "what the device needs for its kernels when none waits for the host"},
    {"weights", "the softmax of the scores, S x S"},
    {"peak", "the most memory in use at once"},
    {"prefill", "taking a prompt in, all tokens at once"},
    {"decode", "adding one token behind a cache"},
    {"accumulation error", "what rounding every partial sum costs"},
    {"bus bandwidth", "bytes per second of a link, as nccl-tests counts"},
};

bool is_letter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
}

bool has_word(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_letter(text[at - 1])) && (end == text.size() || !is_letter(text[end])))
      return true;
  }
  return false;
}

}  // namespace

std::vector<Term> new_terms(const ReportSection& section, std::set<std::string>& explained) {
  std::string text = section.question + "\n" + section.answer + "\n" + section.certainty.why;
  if (!section.answer.empty()) text += fmt::format("\n{}", level_name(section.certainty.level));
  if (!section.views.empty()) {
    const ReportView& view = section.views.front();
    for (size_t i = 0; i < std::min(view.pictures, view.charts.size()); ++i) {
      const Chart& chart = view.charts[i];
      text += "\n" + chart.title + "\n" + chart.x.label + "\n" + chart.y.label;
      for (const ChartSeries& series : chart.series)
        if (!series.hidden) text += "\n" + series.name;
      for (const std::string& category : chart.categories) text += "\n" + category;
    }
  }
  std::vector<Term> terms;
  std::set<std::string_view> own;  // words that have a meaning of their own here
  for (const Explained& each : kTerms) {
    if (!each.section.empty() && each.section != section.id) continue;
    if (each.section.empty() ? own.contains(each.word) : !own.insert(each.word).second) continue;
    const std::string key = each.section.empty() ? std::string(each.word)
                                                 : fmt::format("{} ({})", each.word, each.section);
    if (has_word(text, each.word) && explained.insert(key).second)
      terms.push_back({std::string(each.word), std::string(each.meaning)});
  }
  return terms;
}

}  // namespace ridgeline
