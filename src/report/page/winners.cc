#include "report/page/winners.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <span>

#include "base/sort_by.h"
#include "report/page/axis.h"
#include "report/page/roofline_dots.h"
#include "report/page/sections.h"

namespace ridgeline {
namespace {

// Returns whether the implementation cannot be used at this size. A broken measurement or a row
// that was not tried does not show that.
bool cannot_run(const Record& record) {
  return record.status == Status::oom || record.status == Status::unsupported ||
         record.status == Status::wrong;
}

Contest contest_of(const std::vector<std::pair<std::string, const Record*>>& ran, int64_t seq_len,
                   const char* phase, Verdicts& verdicts) {
  const auto& [fastest, front] =
      *std::min_element(ran.begin(), ran.end(), [&](const auto& a, const auto& b) {
        return *median_of(*a.second, phase) < *median_of(*b.second, phase);
      });
  Contest contest{.seq_len = seq_len, .unbeaten = {fastest}, .ran = ran.size()};
  bool all_apart = true;
  for (const auto& [name, record] : ran) {
    if (record == front) continue;
    const double ratio = *median_of(*record, phase) / *median_of(*front, phase);
    if (contest.lead == 0 || ratio < contest.lead) contest.lead = ratio;
    const Judgement& judgement = verdicts.between(*record, *front, phase);
    contest.rivals.push_back({name, ratio, judgement});
    if (judgement.verdict == Verdict::faster) continue;
    contest.unbeaten.push_back(name);
    all_apart = all_apart && judgement.is_apart;
    if (judgement.verdict == Verdict::unclear) contest.reasons.add(judgement.reason);
  }
  contest.is_apart = !contest.won() && all_apart;
  return contest;
}

// Returns the implementation that wins more than half of these and is beaten in none, or an empty
// string.
std::string winner_of(std::span<const Contest> contests) {
  std::map<std::string, size_t> wins;
  for (const Contest& contest : contests)
    if (contest.won()) ++wins[contest.unbeaten[0]];
  if (wins.size() != 1) return {};
  const auto& [name, count] = *wins.begin();
  // Captured under another name, because Clang 14 cannot capture a structured binding.
  const auto unbeaten = [&winner = name](const Contest& each) {
    return std::find(each.unbeaten.begin(), each.unbeaten.end(), winner) != each.unbeaten.end();
  };
  const bool never_beaten = std::all_of(contests.begin(), contests.end(), unbeaten);
  return never_beaten && 2 * count > contests.size() ? name : std::string();
}

// "at S 256", "from S 1024 to 4096".
std::string lengths_of(std::span<const Contest> contests) {
  const int64_t first = contests.front().seq_len, last = contests.back().seq_len;
  return first == last ? fmt::format("at S {}", first)
                       : fmt::format("from S {} to {}", first, last);
}

std::string rule_of(std::span<const Contest> by_length) {
  if (const std::string name = winner_of(by_length); !name.empty())
    return fmt::format("use {} at every length compared here", name);
  for (size_t i = 1; i < by_length.size(); ++i) {
    if (by_length[i].seq_len == by_length[i - 1].seq_len) continue;
    const std::string before = winner_of(by_length.first(i)),
                      after = winner_of(by_length.subspan(i));
    if (!before.empty() && !after.empty())
      return fmt::format("use {} {}, and {} {}", before, lengths_of(by_length.first(i)), after,
                         lengths_of(by_length.subspan(i)));
  }
  return {};
}

}  // namespace

std::vector<Contest> contests_of(std::span<const LengthGroup> groups, const char* phase,
                                 Verdicts& verdicts) {
  std::vector<Contest> contests;
  for (const LengthGroup& group : groups)
    for (const int64_t length : group.lengths()) {
      std::vector<std::pair<std::string, const Record*>> ran;
      size_t failed = 0;
      for (const std::string& name : group.implementations) {
        const Record* record = group.find(name, length);
        if (record && median_of(*record, phase))
          ran.emplace_back(name, record);
        else if (record && cannot_run(*record))
          ++failed;
      }
      if (!ran.empty() && ran.size() + failed > 1)
        contests.push_back(contest_of(ran, length, phase, verdicts));
    }
  return contests;
}

std::string wins_words(const std::vector<Contest>& contests, const char* phase) {
  std::map<std::string, int> wins;
  int sizes = 0, undecided = 0, as_fast = 0;
  for (const Contest& contest : contests) {
    if (contest.ran < 2) continue;
    ++sizes;
    if (contest.won())
      ++wins[contest.unbeaten[0]];
    else
      ++(contest.reasons.empty() ? as_fast : undecided);
  }
  if (sizes == 0) return {};
  std::vector<std::pair<int, std::string>> order;
  for (const auto& [name, count] : wins) order.emplace_back(-count, name);
  sort_by(order, std::identity());
  if (order.size() == 1 && -order[0].first == sizes)
    return fmt::format("{} is the fastest {} at {}", order[0].second, phase,
                       sizes == 1 ? "the one size" : fmt::format("all {} sizes", sizes));
  std::vector<std::string> words;
  for (const auto& [count, name] : order) words.push_back(fmt::format("{} at {}", name, -count));
  if (as_fast > 0) words.push_back(fmt::format("several as fast at {}", as_fast));
  if (undecided > 0) words.push_back(fmt::format("undecided at {}", undecided));
  return fmt::format("fastest {}, of {} sizes: {}", phase, sizes, listed(words));
}

Advice advice_of(std::vector<Contest> contests) {
  sort_by(contests, &Contest::seq_len);
  const auto count = [&](auto holds) {
    return std::count_if(contests.begin(), contests.end(), holds);
  };
  const auto undecided = count([](const Contest& each) { return !each.reasons.empty(); });
  const auto won = count([](const Contest& each) { return each.won(); });
  if (won == 0) return {};
  const std::string counts = fmt::format("{} of {} cases are undecided", undecided,
                                         count([](const Contest& each) { return each.ran > 1; }));
  if (const std::string rule = rule_of(contests); !rule.empty())
    return {undecided == 0 ? rule : fmt::format("{} ({})", rule, counts), true};
  if (2 * undecided >= std::ssize(contests))
    return {fmt::format("too little is decided for a rule: {}", counts)};
  return {"no implementation wins everywhere; choose by size from the table of all rows"};
}

namespace {

// Without a winner: names the implementation that most often has the smallest median.
std::string quickest_words(const std::vector<Contest>& contests) {
  std::map<std::string, size_t> counts;
  for (const Contest& contest : contests) ++counts[contest.unbeaten.front()];
  const auto most =
      std::ranges::max_element(counts, {}, [](const auto& each) { return each.second; });
  std::string text = fmt::format("by the medians {} is the fastest in {} of {} cases", most->first,
                                 most->second, contests.size());
  double least = 0;
  size_t apart = 0;
  for (const Contest& contest : contests)
    if (contest.is_apart && contest.unbeaten.front() == most->first) {
      least = apart++ == 0 ? contest.lead : std::min(least, contest.lead);
    }
  if (apart > 0)
    text += fmt::format(", and in {} of them it leads by {} or more", apart, times_text(least));
  return text;
}

// The rivals that a sentence names: the baseline, then the closest.
std::vector<Rival> named_rivals(const Contest& contest, const std::string& base) {
  constexpr size_t kMostRivals = 3;
  std::vector<Rival> rivals = contest.rivals;
  sort_by(rivals, [&](const Rival& rival) { return std::pair(rival.name != base, rival.ratio); });
  if (rivals.size() > kMostRivals) rivals.resize(kMostRivals);
  return rivals;
}

// "2.50x as fast as naive (decided) and 1.07x as fast as compiled (undecided)".
std::string rivals_words(const std::vector<Rival>& rivals) {
  std::vector<std::string> words;
  for (const Rival& rival : rivals)
    words.push_back(rival.judgement.verdict == Verdict::same
                        ? fmt::format("as fast as {}", rival.name)
                        : fmt::format("{} as {} ({})", times_as_fast(rival.ratio), rival.name,
                                      sure_word(rival.judgement)));
  return listed(words);
}

struct LongestCase {
  std::string text = {};
  bool has_decided = false;  // names a rival that is decidedly faster or slower
};

// Without a rule: names the fastest at the longest of the lengths that most ran, and its rivals.
LongestCase longest_case(const ReportContext& context, const LengthStudy& study) {
  LongestCase result;
  const LengthGroup& group = study.groups.front();
  const std::string base = baseline_of(study.implementations);
  for (const char* phase : {"forward", "backward"}) {
    const Contest* longest = nullptr;
    const std::vector<Contest> contests = contests_of({&group, 1}, phase, *context.verdicts);
    for (const Contest& contest : contests)
      if (contest.ran > 1 && (!longest || std::pair(contest.ran, contest.seq_len) >
                                              std::pair(longest->ran, longest->seq_len)))
        longest = &contest;
    if (!longest) continue;
    const std::string& name = longest->unbeaten.front();
    const auto ms = median_of(*group.find(name, longest->seq_len), phase);
    const std::vector<Rival> rivals = named_rivals(*longest, base);
    for (const Rival& rival : rivals)
      if (rival.judgement.verdict != Verdict::same && rival.judgement.verdict != Verdict::unclear)
        result.has_decided = true;
    const std::string takes =
        fmt::format("takes {} {}, {}. ", quantity_text(Quantity::milliseconds, ms.value_or(0)),
                    phase, rivals_words(rivals));
    const std::string where = fmt::format("At {}{} {} ", place_of(group, longest->seq_len),
                                          longest->won() ? "" : ", by the medians,", name);
    result.text += result.text.starts_with(where) ? "It " + takes : where + takes;
  }
  return result;
}

}  // namespace

bool can_be_compared(const LengthStudy& study) {
  return study.implementations.size() > 1 && study.implementations.size() <= kMostImplementations;
}

Speedup speedup_of(const ReportContext& context, const LengthStudy& study, const std::string& base,
                   const std::string& other, const char* phase) {
  Speedup speedup(*context.verdicts);
  for (const LengthGroup& group : study.groups)
    for (const int64_t length : group.lengths())
      speedup.add(group.find(base, length), group.find(other, length), phase,
                  place_of(group, length));
  return speedup;
}

std::string sure_word(const Judgement& judgement) {
  return judgement.verdict != Verdict::unclear ? "decided"
         : judgement.is_apart                  ? "undecided: machine in doubt"
                                               : "undecided";
}

void Judged::add(const Judgement& judgement) {
  ++compared;
  if (judgement.verdict != Verdict::unclear) return;
  ++undecided;
  apart += judgement.is_apart ? 1 : 0;
  reasons.add(judgement.reason);
}

Certainty certainty_of(const Judged& judged) {
  const auto [compared, undecided, apart, reasons] = judged;
  if (undecided == 0)
    return {Certainty::Level::decided,
            fmt::format("{} decided by the verdict engine.",
                        compared == 1 ? "The one comparison is"
                                      : fmt::format("All {} comparisons are", compared))};
  const std::string in_doubt =
      apart == 0 ? ""
                 : fmt::format(", {}far apart, the machine in doubt",
                               apart != undecided ? fmt::format("{} of them ", apart)
                               : apart == 1       ? ""
                                                  : "all ");
  return {2 * undecided < compared ? Certainty::Level::partly
          : 2 * apart > undecided  ? Certainty::Level::disturbed
                                   : Certainty::Level::undecided,
          fmt::format("{} undecided{}: {}.",
                      compared == 1 ? "The one comparison is"
                      : compared == undecided
                          ? fmt::format("All {} comparisons are", compared)
                          : fmt::format("{} of {} comparisons are", undecided, compared),
                      in_doubt, reasons.text())};
}

std::string undecided_note(const Judged& judged) {
  const std::string all = judged.reasons.all();
  return all.empty() ? all : fmt::format("Why comparisons are undecided (and how many): {}.", all);
}

FastestAnswer fastest_answer(const ReportContext& context, const LengthStudy& study) {
  if (!can_be_compared(study)) return {};
  const std::string base = baseline_of(study.implementations);
  std::vector<Contest> contests;
  for (const char* phase : {"forward", "backward"})
    for (Contest& contest : contests_of(study.groups, phase, *context.verdicts))
      contests.push_back(std::move(contest));
  if (contests.empty()) return {};
  Judged judged;
  for (const Contest& contest : contests) {
    for (const Rival& rival : contest.rivals) judged.add(rival.judgement);
  }
  auto [text, is_rule] = advice_of(contests);
  if (text.empty()) text = quickest_words(contests);
  text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  text += ".";
  const LongestCase longest = is_rule ? LongestCase{} : longest_case(context, study);
  text = longest.text + text;
  std::vector<std::string> gains;
  for (const std::string& name : study.implementations) {
    if (name == base) continue;
    std::vector<std::string> phases;
    for (const char* phase : {"forward", "backward"}) {
      const Speedup speedup = speedup_of(context, study, base, name, phase);
      if (speedup.count() > 0 && speedup.mostly_decided())
        phases.push_back(fmt::format("{} {}", times_as_fast(speedup.mean()), phase));
    }
    if (!phases.empty()) gains.push_back(fmt::format("{} is {}", name, listed(phases)));
  }
  constexpr size_t kMostGains = 3;
  if (gains.size() > kMostGains) gains.resize(kMostGains);
  if (!gains.empty())
    text += fmt::format(" Against {}, on average, {}.", base, fmt::join(gains, "; "));
  if (judged.compared == 0)
    return {text, {.level = Certainty::Level::measured, .why = "At no size do two of them run."}};
  Certainty certainty = certainty_of(judged);
  // A decided comparison in the text makes the answer at least partly decided.
  if (certainty.level == Certainty::Level::undecided && longest.has_decided)
    certainty.level = Certainty::Level::partly;
  return {text, std::move(certainty), undecided_note(judged)};
}

ReportTable fastest_table(const ReportContext& context, const LengthStudy& study) {
  ReportTable table{.title = "Who is fastest at which size",
                    .columns = {"size", "pass", "fastest", "median", "bound by", "lead", "how sure",
                                "not told apart"}};
  for (const LengthGroup& group : study.groups)
    for (const char* phase : {"forward", "backward"})
      for (const Contest& contest : contests_of({&group, 1}, phase, *context.verdicts)) {
        const std::string& name = contest.unbeaten.front();
        const Record& fastest = *group.find(name, contest.seq_len);
        const auto ms = median_of(fastest, phase);
        const RooflineDot* dot = context.dot(fastest, phase);
        const std::vector<std::string> others(contest.unbeaten.begin() + 1, contest.unbeaten.end());
        table.rows.push_back(
            {{place_of(group, contest.seq_len), static_cast<double>(contest.seq_len)},
             {phase, {}},
             {name, {}},
             {quantity_text(Quantity::milliseconds, ms.value_or(0)), ms},
             {dot ? bound_words(*dot) : "", {}},
             contest.lead > 0 ? ReportCell{times_text(contest.lead), contest.lead} : ReportCell{},
             {contest.won() ? contest.ran > 1 ? "FASTER than every other" : "the only one that runs"
              : contest.reasons.empty() ? "as fast as others"
              : contest.is_apart        ? "undecided, yet far apart: " + contest.reasons.text()
                                        : "undecided: " + contest.reasons.text(),
              {}},
             {fmt::format("{}", fmt::join(others, ", ")), {}}});
      }
  return table;
}

}  // namespace ridgeline
