// The roofline section: measured phases and kernels of profiled steps by arithmetic intensity,
// below the ceilings of their machine, all arithmetic in one chart.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/sort_by.h"
#include "measure/record_values.h"
#include "report/page/axis.h"
#include "report/page/quiet.h"
#include "report/page/roofline_chart.h"
#include "report/page/sections.h"

namespace ridgeline {
namespace {

constexpr size_t kMostPaths = 8;

std::vector<RooflineMachine> machines_of(const ReportContext& context) {
  std::vector<RooflineMachine> machines;
  const auto machine = [&](const Record& record) -> RooflineMachine& {
    const std::string name = machine_name(record);
    const auto known = std::ranges::find(machines, name, &RooflineMachine::name);
    return known != machines.end() ? *known : machines.emplace_back(RooflineMachine{.name = name});
  };
  // One thread has another roof than all of them.
  const auto threads_of = [](const RooflineDot& dot) {
    const std::string threads = text_at(dot.record->settings, "threads");
    return threads.empty()
               ? threads
               : fmt::format(", {} thread{}", shown(threads, 10), threads == "1" ? "" : "s");
  };
  std::map<std::string, std::set<std::string>> threads;
  for (const RooflineDot& dot : context.dots)
    threads[machine_name(*dot.record)].insert(threads_of(dot));
  for (const RooflineDot& dot : context.dots) {
    std::vector<PathDots>& paths = machine(*dot.record).paths;
    std::string path = dot.path.empty() ? "dtype unknown" : dot.path;
    if (threads[machine_name(*dot.record)].size() > 1) path += threads_of(dot);
    auto known = std::ranges::find(paths, path, &PathDots::path);
    if (known == paths.end()) {
      if (paths.size() == kMostPaths) continue;  // files may hold any number
      known = paths.insert(paths.end(), PathDots{.path = path});
      known->ceilings = ceilings_of(context, *dot.record, arithmetic_of(*dot.record, dot.series));
    }
    known->dots.push_back(&dot);
  }
  for (RooflineMachine& each : machines)
    sort_by_falling(each.paths, [](const PathDots& path) { return path.dots.size(); });
  for (const Record* record : context.rows)
    if (record->study == "profile" && record->metrics && record->metrics->is_object() &&
        std::ranges::count(machines, machine_name(*record), &RooflineMachine::name) > 0)
      machine(*record).profiles.push_back(record);
  return machines;
}

// "88 are bound by their own code, 6 by memory, 6 by arithmetic"; empty if no bound is known.
std::string bounds_words(const std::vector<const RooflineDot*>& dots, bool with_advice) {
  using enum DotBound::Kind;
  std::map<DotBound::Kind, size_t> counts;
  bool disturbed = false;
  for (const RooflineDot* dot : dots) {
    if (!dot->bound) continue;
    disturbed = disturbed || is_disturbed(*dot->record);
    ++counts[dot_bound(*dot).kind];
  }
  std::vector<std::pair<size_t, const char*>> parts = {
      {counts[memory],
       with_advice ? "memory, where fewer bytes would help (fusion, narrower dtypes)" : "memory"},
      {counts[arithmetic], "arithmetic"},
      {counts[start], "their start (below 10 us), likely"},
      {counts[own_code], disturbed ? "their own code or other work" : "their own code"},
      {counts[above], "no known roof (theirs is too low)"},
      {counts[unknown], disturbed ? "memory, of unknown bandwidth, their own code or other work"
                                  : "memory, of unknown bandwidth, or their own code"}};
  sort_by_falling(parts, &std::pair<size_t, const char*>::first);
  std::string text;
  for (const auto& [count, words] : parts)
    if (count > 0)
      text += fmt::format("{}{}{} by {}", text.empty() ? "" : ", ", count,
                          !text.empty() ? ""
                          : count == 1  ? " is bound"
                                        : " are bound",
                          words);
  return text;
}

size_t placed_among(const std::vector<const RooflineDot*>& dots) {
  return static_cast<size_t>(
      std::ranges::count_if(dots, [](const RooflineDot* dot) { return dot->bound.has_value(); }));
}

// ", +-16 %" for a share whose median is not well known, else empty.
std::string width_words(const RooflineDot& dot) {
  const auto width = in_run_percent(*dot.record, dot.series);
  return width && *width > kNarrowPercent ? fmt::format(", +-{:.0f} %", *width) : std::string();
}

// One sentence per machine and arithmetic: the dot closest to the roof, what bounds the dots, and
// the ceilings.
std::string in_words(const std::string& machine, const PathDots& path) {
  const Ceilings& ceilings = path.ceilings;
  const std::string view = fmt::format("{}, {}", machine, path.path);
  if (!ceilings.flops_per_s)
    return fmt::format("{}: no ceiling is known for this machine and arithmetic.", view);
  const RooflineDot* best = closest_to_roof(path.dots);
  const auto unknown =
      std::ranges::count_if(path.dots, [](const RooflineDot* dot) { return !dot->path_is_known; });
  std::string text = view + ":";
  if (best)
    text += fmt::format(" closest to the roof{} is {} {} ({}) with {:.0f} %{}.",
                        preferred_words(path.dots, *best), shown(best->record->implementation, 40),
                        phase_words(best->series), size_words(*best->record), 100 * best->share(),
                        width_words(*best));
  if (const std::string bounds = bounds_words(path.dots, /*with_advice=*/true);
      ceilings.bytes_per_s && !bounds.empty())
    text += fmt::format(" Of {}, {}.", counted(placed_among(path.dots), "dot"), bounds);
  text += fmt::format(" {} roof is {}", best ? "The" : "the",
                      quantity_text(Quantity::flops_per_s, *ceilings.flops_per_s));
  if (ceilings.bytes_per_s)
    text += fmt::format(" and {:.4g} GB/s{}, the ridge at {:.3g} FLOP/byte",
                        *ceilings.bytes_per_s / 1e9,
                        ceilings.memory_probe.empty() ? "" : " by " + ceilings.memory_probe,
                        *ceilings.flops_per_s / *ceilings.bytes_per_s);
  text += fmt::format(" ({}).", ceilings.source);
  if (unknown > 0)
    text += fmt::format(
        " {} held against the ceiling of the dtype: older records and those of peers do not say "
        "which arithmetic ran.",
        unknown == 1 ? "1 dot is" : fmt::format("{} dots are", unknown));
  return text;
}

std::string phases_words(size_t count) {
  return fmt::format("{} measured {}", count, count == 1 ? "pass" : "passes");
}

// The size as the section on attention names it: "S 4096, d 16".
std::string attention_place(const ReportContext& context, const Record& record) {
  for (const LengthGroup& group : length_study(context, record.study).groups)
    for (const LengthRow& row : group.rows)
      if (row.record == &record) return place_of(group, row.seq_len);
  return short_size(record);
}

// " Attention forward at S 4096 is bound by memory (naive 87 % of the memory roof) and by ...";
// empty if there is no such dot.
std::string attention_words(const ReportContext& context, const RooflineMachine& machine) {
  constexpr size_t kMostNamed = 6;
  const std::vector<const RooflineDot*> dots = long_attention(context, machine);
  using ByBound = std::pair<std::string, std::string>;  // a bound, and the dots that it bounds
  std::vector<ByBound> by_bound;
  for (size_t i = 0; i < std::min(dots.size(), kMostNamed); ++i) {
    const DotBound bound = dot_bound(*dots[i]);
    const std::string name =
        fmt::format("{} {}", shown(dots[i]->record->implementation, 40), bound.of_roof);
    const auto known = std::ranges::find(by_bound, bound.by, &ByBound::first);
    if (known == by_bound.end())
      by_bound.emplace_back(bound.by, name);
    else
      known->second += ", " + name;
  }
  std::string text;
  for (const auto& [bound, names] : by_bound)
    text += fmt::format("{}by {} ({})", text.empty() ? "" : " and ", bound, names);
  return text.empty() ? text
                      : fmt::format(" Attention forward at {} is bound {}.",
                                    attention_place(context, *dots.front()->record), text);
}

// " Memory: 60.2 GB/s; of loads alone 38.3, for a decoder layer, which hardly stores."
std::string memory_roofs(const RooflineMachine& machine) {
  for (const PathDots& path : machine.paths) {
    const Ceilings& of = path.ceilings;
    if (!of.bytes_per_s || of.memory_probe.empty()) continue;
    const std::string text = fmt::format(" Memory: {:.4g} GB/s", *of.bytes_per_s / 1e9);
    const auto held = [](const PathDots& each) {
      return std::ranges::find(each.dots, std::string(kOfLoads), &RooflineDot::slope);
    };
    for (const PathDots& other : machine.paths)
      if (const auto dot = held(other); of.loads && dot != other.dots.end())
        return fmt::format("{}; of loads alone {:.4g}, for {}, which hardly stores.", text,
                           of.loads->rate / 1e9, work_of(*(*dot)->record));
    return text + ".";
  }
  return {};
}

// Answers for all arithmetic of one machine.
void answer_roofline(const ReportContext& context, const RooflineMachine& machine,
                     ReportSection& section) {
  std::vector<const RooflineDot*> all;
  bool is_measured = false;
  for (const PathDots& path : machine.paths) {
    all.insert(all.end(), path.dots.begin(), path.dots.end());
    is_measured = is_measured || path.ceilings.source.starts_with("measured");
  }
  const RooflineDot* best = closest_to_roof(all);
  const auto held =
      std::ranges::count_if(all, [](const RooflineDot* dot) { return dot->roof.has_value(); });
  if (held == 0) {
    section.answer = fmt::format("{} has no ceiling to hold {} against.", machine.name,
                                 phases_words(all.size()));
    return;
  }
  if (!best) {
    section.answer = fmt::format("{} of {} with a known ceiling {} above it.",
                                 phases_words(static_cast<size_t>(held)), machine.name,
                                 held == 1 ? "runs" : "all run");
    section.certainty.why = is_measured ? "The ceilings were measured on this machine."
                                        : "The ceilings are those of data sheets.";
    return;
  }
  section.answer = fmt::format(
      "Of {} {}; the closest{}, {} {} ({}), reaches {:.0f} % of {}{}.{}",
      phases_words(placed_among(all)), bounds_words(all, /*with_advice=*/false),
      preferred_words(all, *best), shown(best->record->implementation, 40),
      phase_words(best->series), shown(short_size(*best->record), 48), 100 * best->share(),
      dot_bound(*best).roof, width_words(*best), attention_words(context, machine));
  section.certainty = certainty_of_times(
      context, {},
      is_measured ? "Roofs: the fastest samples of probes here." + memory_roofs(machine)
                  : "Below data sheets: `ridgeline roofline` measures this machine's ceilings.");
}

// One line per phase.
ReportTable bounds_table(const std::vector<RooflineMachine>& machines) {
  ReportTable table{.title = "What bounds each pass",
                    .columns = {"work", "implementation", "pass", "size", "FLOP/byte", "speed",
                                "% of roof", "bound by"}};
  for (const RooflineMachine& machine : machines)
    for (const PathDots& path : machine.paths)
      for (const RooflineDot* dot : path.dots)
        if (dot->roof)
          table.rows.push_back(
              {{work_of(*dot->record), {}},
               {shown(dot->record->implementation, 60), {}},
               {phase_words(dot->series), {}},
               {size_words(*dot->record), {}},
               {figures_text(dot->intensity), dot->intensity},
               {quantity_text(Quantity::flops_per_s, dot->flops_per_s), dot->flops_per_s},
               {fmt::format("{:.1f}", 100 * dot->share()), 100 * dot->share()},
               {bound_words(*dot), {}}});
  return table;
}

}  // namespace

ReportSection roofline_section(const ReportContext& context) {
  ReportSection section{.id = "roofline", .title = "Roofline", .question = "What bounds the work?"};
  const std::vector<RooflineMachine> machines = machines_of(context);
  for (const RooflineMachine& machine : machines) {
    if (section.views.size() + 3 > kMostViews) break;
    Chart chart = roofline_chart(context, machine, RooflineOf::phases);
    if (chart.series.empty()) continue;
    if (section.answer.empty()) answer_roofline(context, machine, section);
    Chart others = beside_others(machine, chart);
    section.views.push_back({.name = machine.name, .charts = {std::move(chart)}});
    if (Chart kernels = roofline_chart(context, machine, RooflineOf::kernels);
        !kernels.series.empty())
      section.views.push_back(
          {.name = machine.name + ", kernels of a profiled step", .charts = {std::move(kernels)}});
    section.views.push_back({.name = machine.name + ", beside the roofs of other machines",
                             .charts = {std::move(others)}});
    for (const PathDots& path : machine.paths)
      section.sentences.push_back(in_words(machine.name, path));
  }
  if (section.empty()) return section;
  if (ReportTable table = bounds_table(machines); !table.rows.empty())
    section.tables.push_back(std::move(table));
  section.sentences.emplace_back(
      "FLOPs are those of the products that run, an FMA as two, unlike the convention's of the "
      "tables; bytes count every operand of every kernel once. A pass is held against the memory "
      "level that its operands fit; rows that were measured with emptied caches, against memory.");
  return section;
}

}  // namespace ridgeline
