#include "report/page/terms.h"

#include <algorithm>
#include <cctype>
#include <string_view>

namespace ridgeline {
namespace {

struct Explained {
  std::string_view word, meaning;
};

// In the order in which they are told.
constexpr Explained kTerms[] = {
    {"roof", "the most FLOP/s that memory and arithmetic allow"},
    {"intensity", "FLOPs per byte moved to or from memory"},
    {"ridge point", "the intensity at which the roof turns from memory to arithmetic"},
    {"undecided", "the samples cannot tell which one is faster"},
    {"S", "sequence length"},
    {"naive", "attention with S x S tensors in memory"},
    {"vanilla", "a model with one kernel per operation"},
    {"fused", "neighbouring operations joined into generated kernels"},
    {"flash", "attention as one kernel that never stores its S x S scores"},
    {"compiled", "fused and flash together"},
    {"launch graph", "launches recorded once and started together (a CUDA graph)"},
    {"busy time", "what the device needs for its kernels when none waits for the host"},
    {"weights", "of attention: the softmax of the scores, S x S numbers"},
    {"peak", "the most memory in use at once"},
    {"prefill", "taking a prompt in, all tokens at once"},
    {"decode", "adding one token behind a cache of keys and values"},
    {"accumulation error", "what rounding every partial sum costs"},
    {"bus bandwidth", "bytes a link must carry per second, as nccl-tests counts"},
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
  for (const Explained& each : kTerms)
    if (has_word(text, each.word) && explained.insert(std::string(each.word)).second)
      terms.push_back({std::string(each.word), std::string(each.meaning)});
  return terms;
}

}  // namespace ridgeline
