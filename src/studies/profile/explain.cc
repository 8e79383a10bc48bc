// Answers common questions about a profile in sentences, from one record.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "report/record_cells.h"
#include "report/terminal/utilisation_cells.h"
#include "studies/profile/fold_rows.h"
#include "studies/profile/metrics.h"
#include "studies/profile/tables.h"

namespace ridgeline {
namespace {

double total_of(const std::vector<FoldRow>& rows) {
  double total = 0;
  for (const FoldRow& row : rows) total += row.total_ms.value_or(0);
  return total;
}

// The kernel that takes most of a phase.
struct Top {
  std::string key;
  double share = 0;        // of the phase's time
  double invocations = 0;  // per step
};

std::optional<Top> top_of(const Record& record, std::string_view phase) {
  const std::vector<FoldRow> rows = fold_rows(record, "kernel", phase);
  const double all = total_of(fold_rows(record, "phase_category", phase));
  const auto most = std::ranges::max_element(
      rows, {}, [](const FoldRow& row) { return row.total_ms.value_or(0); });
  if (most == rows.end() || !(all > 0) || !most->total_ms || !most->invocations ||
      most->key == kOtherFolds)
    return std::nullopt;
  return Top{most->key, *most->total_ms / all, *most->invocations};
}

std::string words(const Top& top) {
  return fmt::format("{:.1f} % of its time in {:.4g} {} a step", 100 * top.share, top.invocations,
                     top.invocations == 1 ? "invocation" : "invocations");
}

void about_top_kernels(const Record& record, std::vector<std::string>& out) {
  const std::optional<Top> forward = top_of(record, "forward"),
                           backward = top_of(record, "backward");
  if (forward)
    out.push_back(fmt::format("in forward {} takes most: {}", forward->key, words(*forward)));
  if (!backward) return;
  if (!forward)
    out.push_back(fmt::format("in backward {} takes most: {}", backward->key, words(*backward)));
  else if (forward->key == backward->key)
    out.push_back("in backward it is the same kernel: " + words(*backward));
  else
    out.push_back(
        fmt::format("in backward it is another one, {}: {}", backward->key, words(*backward)));
}

void about_the_rest(const Record& record, std::vector<std::string>& out) {
  constexpr double kWorthNaming = 0.01;  // of the phase
  const std::vector<FoldRow> rows = fold_rows(record, "phase_category", "forward");
  const double all = total_of(rows);
  if (!(all > 0)) return;
  std::vector<std::string> parts;
  bool has_products = false;
  for (const FoldRow& row : rows) {
    const double share = row.total_ms.value_or(0) / all;
    has_products = has_products || row.key == "gemm";
    if (row.key == "gemm" || share < kWorthNaming) continue;
    parts.push_back(fmt::format("{:.1f} % in {}", 100 * share, row.key));
  }
  if (has_products && !parts.empty())
    out.push_back(
        fmt::format("besides matrix products, forward spends {}", fmt::join(parts, ", ")));
}

void about_products(const Record& record, std::vector<std::string>& out) {
  const auto forward = metric_in(record.metrics, "matmul_share", "forward"),
             step = metric_in(record.metrics, "matmul_share", "step");
  if (!forward || !step || !(*step > 0)) return;
  const auto has = [&](const char* by, std::initializer_list<const char*> keys) {
    return std::ranges::any_of(fold_rows(record, by), [&](const FoldRow& row) {
      return std::ranges::find(keys, row.key) != keys.end();
    });
  };
  std::string sentence = fmt::format("matrix products take {:.1f} % of forward", 100 * *forward);
  if (has("phase", {"backward", "optimizer"}))
    sentence += fmt::format(" and {:.1f} % of the whole step", 100 * *step);
  if (has("category", {"attention"}))
    sentence += "; those inside of attention kernels are not among them";
  out.push_back(std::move(sentence));
}

void about_softmax(const Record& record, std::vector<std::string>& out) {
  const auto of = [&](const char* name) {
    return metric_in(record.metrics, "softmax_against_matmul", name);
  };
  const auto softmax = of("softmax_us"), matmul = of("matmul_us"), few = of("softmax_flops"),
             many = of("matmul_flops");
  if (!softmax || !matmul || !few || !many || !(*matmul > 0) || !(*many > 0)) return;
  out.push_back(fmt::format(
      "inside of attention, softmax takes {:.4g} us a step and the two products around it {:.4g} "
      "us: {:.3g} times their time with {:.3g} times their FLOPs",
      *softmax, *matmul, *softmax / *matmul, *few / *many));
}

void about_waiting(const Record& record, std::vector<std::string>& out) {
  if (const std::string verdict = text_of(*record.metrics, "launch_verdict"); !verdict.empty())
    out.push_back(verdict);
  const auto busy = metric_in(record.metrics, "device_time", "busy_ms"),
             gaps = metric_in(record.metrics, "device_time", "own_gaps_ms"),
             alone = number_in(*record.metrics, "untraced_device_ms");
  if (busy && gaps && alone && *busy > 0 && *alone > 0)
    out.push_back(fmt::format(
        "kernels cover {:.4g} ms of a step, with the gaps that the device itself makes {:.4g}; "
        "without tracing, and with all work queued, a step takes {:.4g} ms: {:+.1f} % beside the "
        "kernels, {:+.1f} % with the gaps",
        *busy, *busy + *gaps, *alone, 100 * (*alone / *busy - 1),
        100 * (*alone / (*busy + *gaps) - 1)));
}

void about_use(const Record& record, std::vector<std::string>& out) {
  const Json* use = utilization_in(record);
  if (use == nullptr) return;
  const auto busy = metric_in(record.metrics, "device_time", "busy_ms"),
             span = metric_in(record.metrics, "device_time", "span_ms");
  std::optional<double> share;
  if (busy && span && *span > 0) share = *busy / *span;
  std::string sentence = low_use_sentence(use, share);
  const auto active = number_in(*use, "sm_active"), tensor = number_in(*use, "tensor_active");
  if (sentence.empty() && active)
    sentence = fmt::format("multiprocessors had a warp in {:.1f} % of cycles", 100 * *active);
  if (sentence.empty()) return;
  if (tensor)
    sentence += fmt::format("{} tensor pipes worked in {:.1f} %",
                            sentence.find(';') == std::string::npos ? " and" : ";", 100 * *tensor);
  out.push_back(std::move(sentence));
}

void about_threads(const Record& record, std::vector<std::string>& out) {
  const Json* events = record.metrics->find_key("cpu_events");
  if (events == nullptr || !events->is_object()) return;
  const auto of = [&](const char* name) { return number_in(*events, name); };
  const auto clock_ns = of("task_clock_ns"), faults = of("page_faults"),
             switches = of("context_switches"), forced = of("forced_switches"),
             elapsed_ns = of("elapsed_ns");
  if (!clock_ns || !faults || !switches || !forced) return;
  // The mean of the same steps: their median may be far shorter.
  const std::string at_work =
      elapsed_ns && *elapsed_ns > 0
          ? fmt::format(", which is {:.2f} threads at work in the mean", *clock_ns / *elapsed_ns)
          : std::string();
  std::string sentence = fmt::format(
      "a step takes {:.4g} ms of processor time{}, with {:.4g} page faults and {:.4g} context "
      "switches",
      1e-6 * *clock_ns, at_work, *faults, *switches);
  if (const auto cycles = of("cycles"), instructions = of("instructions");
      cycles && instructions && *cycles > 0)
    sentence += fmt::format("; {:.2f} instructions a cycle", *instructions / *cycles);
  out.push_back(std::move(sentence));
  constexpr double kNoise = 1;  // per step
  if (*forced >= kNoise)
    out.push_back(fmt::format(
        "noise: {:.4g} times a step other work took a processor from a thread of this one",
        *forced));
}

}  // namespace

std::vector<std::string> inference_against_training(const RecordRefs& records) {
  const auto key_without_scenario = [](const Record& record) {
    Record other = record;
    other.workload.erase("scenario");
    return workload_key(other);
  };
  const auto share_of = [](const Record& record, const char* scenario) {
    return record.status == Status::ok && text_of(record.workload, "scenario") == scenario
               ? metric_in(record.metrics, "matmul_share", "step")
               : std::nullopt;
  };
  std::vector<std::string> sentences;
  const std::vector<const Record*> rows = rows_of_study(records, "profile");
  for (const Record* inference : rows) {
    const auto before = share_of(*inference, "forward");
    if (!before) continue;
    for (const Record* training : rows)
      if (const auto after = share_of(*training, "full-step");
          after && key_without_scenario(*inference) == key_without_scenario(*training))
        sentences.push_back(fmt::format(
            "{}: from inference to this step, matrix products go from {:.1f} % of the time to "
            "{:.1f} %",
            profile_name(*training), 100 * *before, 100 * *after));
  }
  return sentences;
}

std::vector<std::string> profile_answers(const Record& record) {
  std::vector<std::string> answers;
  if (record.status != Status::ok || !record.metrics || !record.metrics->is_object())
    return answers;
  about_top_kernels(record, answers);
  about_the_rest(record, answers);
  about_products(record, answers);
  about_softmax(record, answers);
  about_waiting(record, answers);
  about_use(record, answers);
  about_threads(record, answers);
  return answers;
}

}  // namespace ridgeline
