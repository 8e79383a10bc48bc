#include "measure/interleave.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/processors.h"
#include "base/random.h"
#include "measure/child_study.h"

namespace ridgeline {
namespace {

// A turn takes as many samples as fill this time on the slower side, at least one.
constexpr double kTurnMs = 4, kMaxTurnSamples = 200;
constexpr double kMinQuads = 2, kMaxQuads = 40;
// Many short rounds limit the weight of an outlier on a busy machine: a round gets about
// 1 / kRoundsInBudget of a row's time budget.
constexpr int kRoundsInBudget = 100;
constexpr int kQuadsOfAMedian = 5;  // the median tolerates two outliers

// The progress of a led program: it waits in measurement `measurement` of row `row`, or has ended.
struct Position {
  size_t row = 0;
  size_t measurement = 0;
  bool ended = false;

  // Ended programs come after every row.
  auto order() const { return std::tuple(ended, row, measurement); }
};

// One side of a round.
class LedProgram {
 public:
  LedProgram(const Command& command, const InterleaveOptions& options)
      : child_(command, {.interrupted = options.interrupted}) {
    advance();
  }

  const Position& position() const { return position_; }
  const std::vector<std::string>& phases() const { return phases_; }

  // Returns the samples of one turn per phase, or nullopt if the program was interrupted or failed,
  // which finish() reports.
  std::optional<std::vector<std::vector<double>>> take(const Turn& turn) {
    child_.give(turn);
    auto report = child_.next_report();
    position_.ended = !report;
    if (!report) return std::nullopt;
    const bool good =
        report->kind == TurnReport::Kind::samples && report->samples_ms.size() == phases_.size() &&
        std::all_of(report->samples_ms.begin(), report->samples_ms.end(), [&](const auto& phase) {
          return phase.size() == static_cast<size_t>(turn.count);
        });
    if (!good) throw Error(ErrorKind::internal, "a program took other samples than its turn's");
    return std::move(report->samples_ms);
  }

  // Ends the measurement and advances to the next one.
  void stop() {
    if (position_.ended) return;
    child_.give({.kind = Turn::Kind::stop});
    advance();
  }

  std::optional<std::vector<Record>> finish() { return child_.finish(); }

 private:
  void advance() {
    ++position_.measurement;
    while (auto report = child_.next_report()) {
      if (report->kind == TurnReport::Kind::row) {
        position_ = {.row = report->index};
        continue;
      }
      phases_ = std::move(report->names);
      return;
    }
    position_.ended = true;
  }

  ChildStudy child_;
  Position position_;
  std::vector<std::string> phases_;
};

// Restarts both sides and leads them through their rows together.
class Round {
 public:
  struct Setting {
    bool base_first = true;            // which side starts first and takes the outer turns of quads
    std::vector<int> processors = {};  // empty: all
  };

  Round(const Command& base, const Command& next, const Setting& setting,
        const InterleaveOptions& options)
      : base_first_(setting.base_first), options_(options) {
    const OnProcessors here(setting.processors);
    if (base_first_) base_ = std::make_unique<LedProgram>(base, options);
    next_ = std::make_unique<LedProgram>(next, options);
    if (!base_) base_ = std::make_unique<LedProgram>(base, options);
  }

  // Calls `measure` for each measurement that both sides have.
  void for_each_measurement(const std::function<void(Round&, size_t row)>& measure) {
    while (!base_->position().ended || !next_->position().ended) {
      const auto base_at = base_->position().order(), next_at = next_->position().order();
      if (base_at == next_at) {
        if (base_->phases() != next_->phases())
          throw Error(ErrorKind::usage, "the two sides measure different phases",
                      "give both the same study and passes");
        measure(*this, base_->position().row);
      } else {
        // The other side lacks this measurement, for example because it is out of memory.
        sample_once(base_at < next_at ? *base_ : *next_);
      }
    }
  }

  // One sample each suffices for a valid record.
  void sample_both_once() {
    sample_once(*base_);
    sample_once(*next_);
  }

  void measure_in_turns(PairedRow& row) {
    LedProgram& first = base_first_ ? *base_ : *next_;
    LedProgram& second = base_first_ ? *next_ : *base_;
    const double first_ms = warm_up(first), second_ms = warm_up(second);
    // The same number of samples on both sides, because the minimum falls with their number.
    const double samples_each =
        std::clamp(std::ceil(kTurnMs / std::max(first_ms, second_ms)), 1.0, kMaxTurnSamples);
    const double quad_ms = 2 * samples_each * (first_ms + second_ms);
    const double share_s = options_.rounds.time_budget_s / kRoundsInBudget;
    const double round_ms = std::min(options_.round_ms, 1e3 * share_s);
    const int count =
        static_cast<int>(std::clamp(std::floor(round_ms / quad_ms), kMinQuads, kMaxQuads));
    const double begin_s = monotonic_s();
    const auto goes_on = [&](int quads_done) {
      return quads_done < count && !over() &&
             (quads_done < kQuadsOfAMedian || monotonic_s() - begin_s < share_s);
    };
    const Turn turn{.kind = Turn::Kind::sample, .count = static_cast<int>(samples_each)};
    std::vector<std::vector<Quad>> quads(base_->phases().size());  // per phase
    for (int done = 0; goes_on(done); ++done) {
      for (auto& phase : quads) phase.emplace_back();
      for (const bool outer : {true, false, false, true}) {
        LedProgram& program = outer ? first : second;
        const auto samples = program.take(turn);
        if (!samples) return;  // ended or interrupted, as finish() reports
        for (size_t phase = 0; phase < quads.size(); ++phase) {
          Quad& quad = quads[phase].back();
          std::vector<double>& side = &program == base_.get() ? quad.base_ms : quad.new_ms;
          side.insert(side.end(), (*samples)[phase].begin(), (*samples)[phase].end());
        }
      }
    }
    for (size_t phase = 0; phase < quads.size(); ++phase)
      row.phase(base_->phases()[phase]).add_round(quads[phase]);
    base_->stop();
    next_->stop();
  }

  // Returns the records of both sides, or nullopt if interrupted.
  std::optional<std::pair<std::vector<Record>, std::vector<Record>>> finish() {
    auto base = base_->finish();
    auto next = next_->finish();
    if (!base || !next) return std::nullopt;
    if (base->size() != next->size())
      throw Error(ErrorKind::usage,
                  fmt::format("the base has {} rows, the new side {}: rows are paired in order",
                              base->size(), next->size()),
                  "give both sides as many sizes");
    return std::pair(std::move(*base), std::move(*next));
  }

 private:
  static void sample_once(LedProgram& program) {
    if (program.take({.kind = Turn::Kind::warm_up, .count = 1})) program.stop();
  }

  bool over() const { return options_.interrupted && options_.interrupted(); }

  // Returns the duration of a sample in ms, summed over phases: the fastest of five, because other
  // work only adds time.
  static double warm_up(LedProgram& program) {
    const auto samples = program.take({.kind = Turn::Kind::warm_up, .count = 5});
    double total_ms = 0;
    if (samples)
      for (const auto& phase : *samples) total_ms += *std::min_element(phase.begin(), phase.end());
    return std::max(total_ms, 1e-6);
  }

  std::unique_ptr<LedProgram> base_, next_;
  bool base_first_;
  const InterleaveOptions& options_;
};

// Returns the largest number of threads of any row; 0 if no row computes on the CPU.
int threads_of(const std::vector<PairedRow>& rows) {
  int most = 0;
  for (const PairedRow& row : rows)
    for (const Record* record : {&row.base, &row.next})
      most = std::max(most, record->settings.value("threads", 0));
  return most;
}

}  // namespace

Interleaved interleave(const Command& base, const Command& next, const InterleaveOptions& options) {
  Interleaved result;
  const auto tell = [&](int round, size_t row) {
    if (options.progress) options.progress(round, row);
  };
  Round check(base, next, {}, options);
  check.for_each_measurement([&](Round& both, size_t row) {
    tell(0, row);
    both.sample_both_once();
  });
  const auto checked = check.finish();
  if (!checked) return {.interrupted = true};
  for (size_t row = 0; row < checked->first.size(); ++row)
    result.rows.push_back({checked->first[row], checked->second[row], {}});

  const std::vector<int> processors = allowed_processors();
  const int threads = threads_of(result.rows);
  NormalRandom coin(static_cast<uint64_t>(monotonic_ns()), "which program is first");
  const auto unchecked = [](Command command) {
    command.emplace_back("--no-verify");
    return command;
  };
  const auto measure = [&](int index, const std::vector<bool>& settled,
                           std::vector<PairedRow>& rows) {
    Round::Setting setting{.base_first = coin.next_bits() % 2 == 0};
    if (threads > 0) setting.processors = some_processors(processors, threads, index);
    Round round(unchecked(base), unchecked(next), setting, options);
    round.for_each_measurement([&](Round& both, size_t row) {
      tell(index + 1, row);
      if (row >= rows.size() || settled[row])
        both.sample_both_once();
      else
        both.measure_in_turns(rows[row]);
    });
    auto records = round.finish();
    if (!records) return false;
    for (size_t row = 0; row < records->first.size() && row < rows.size(); ++row) {
      if (settled[row]) continue;
      // A round sees only the processors it runs on; the record describes the whole machine.
      records->first[row].machine = rows[row].base.machine;
      records->second[row].machine = rows[row].next.machine;
      result.base.push_back(std::move(records->first[row]));
      result.next.push_back(std::move(records->second[row]));
    }
    return true;
  };
  result.interrupted = !take_rounds(result.rows, options.rounds, measure);
  return result;
}

std::optional<std::vector<Record>> run_alone(const Command& command,
                                             const std::function<bool()>& interrupted) {
  constexpr double kADay = 86400;  // seconds; a study without turns reports nothing before its end
  ChildStudy child(
      command, {.lead = ChildStudy::Lead::none, .patience_s = kADay, .interrupted = interrupted});
  return child.finish();
}

}  // namespace ridgeline
