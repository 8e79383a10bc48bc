#include "measure/interleave.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <numeric>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "measure/child_study.h"
#include "measure/rank_interval.h"

namespace ridgeline {
namespace {

constexpr int kMaxBlockSamples = 200;
constexpr double kMinQuads = 4, kMaxQuads = 40;

double median_of(const std::vector<double>& samples) {
  return summarize(samples).median_ms;
}

// A clock may be too coarse for a block; a nanosecond stands for nothing.
double log_median(const std::vector<double>& samples) {
  return std::log(std::max(median_of(samples), 1e-6));
}

// Where a led program stands: it waits in measurement `measurement` of row `row`, or has ended.
struct Position {
  size_t row = 0;
  size_t measurement = 0;
  bool ended = false;

  // Programs that have ended are beyond every row.
  auto order() const { return std::tuple(ended, row, measurement); }
};

// One side of a round.
class Player {
 public:
  Player(const Command& command, const InterleaveOptions& options)
      : child_(command, {.interrupted = options.interrupted}) {
    advance();
  }

  const Position& position() const { return position_; }
  const std::vector<std::string>& phases() const { return phases_; }

  // Takes samples: one list per phase. Nothing: it was interrupted or failed; finish() says.
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

  // Ends the measurement and goes on to the next one.
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

// By row, measurement and place in it: the order in which a study times its phases.
using PhasesOfRow = std::map<std::tuple<size_t, size_t, size_t>, PairedPhase>;

class Round {
 public:
  Round(const Command& base, const Command& next, int index, const InterleaveOptions& options)
      : index_(index), options_(options) {
    // Who is started first, and so lies first in memory, changes from round to round.
    if (index % 2 == 0) base_ = std::make_unique<Player>(base, options);
    next_ = std::make_unique<Player>(next, options);
    if (!base_) base_ = std::make_unique<Player>(base, options);
  }

  void measure(PhasesOfRow& phases) {
    while (!base_->position().ended || !next_->position().ended) {
      const auto base_at = base_->position().order(), next_at = next_->position().order();
      if (base_at == next_at)
        measure_both(phases);
      else
        measure_alone(base_at < next_at ? *base_ : *next_);
    }
  }

  Player& base() { return *base_; }
  Player& next() { return *next_; }

 private:
  // The other side has no such measurement (out of memory, say): enough for a valid record.
  static void measure_alone(Player& player) {
    if (player.take({.kind = Turn::Kind::warm_up, .count = 1})) player.stop();
  }

  void measure_both(PhasesOfRow& phases) {
    if (base_->phases() != next_->phases())
      throw Error(ErrorKind::usage, "the two sides measure different phases",
                  "give both the same study and passes");
    const size_t row = base_->position().row;
    if (options_.progress) options_.progress(index_, row);
    Block base_block, next_block;
    if (index_ % 2 == 0) base_block = warm_up(*base_);
    next_block = warm_up(*next_);
    if (index_ % 2 == 1) base_block = warm_up(*base_);
    const double quad_ms = 2 * (base_block.ms + next_block.ms);
    const double quads = std::clamp(
        std::floor(1e3 * options_.time_budget_s / options_.rounds / quad_ms), kMinQuads, kMaxQuads);
    for (int quad = 0; quad < static_cast<int>(quads) && !over(); ++quad) {
      // Who starts changes from quad to quad and from round to round.
      const bool base_first = (quad + index_) % 2 == 0;
      Player& outer = base_first ? *base_ : *next_;
      Player& inner = base_first ? *next_ : *base_;
      const int outer_count = (base_first ? base_block : next_block).samples;
      const int inner_count = (base_first ? next_block : base_block).samples;
      auto first = outer.take({.kind = Turn::Kind::sample, .count = outer_count});
      auto second = first ? inner.take({.kind = Turn::Kind::sample, .count = inner_count}) : first;
      auto third = second ? inner.take({.kind = Turn::Kind::sample, .count = inner_count}) : second;
      auto fourth = third ? outer.take({.kind = Turn::Kind::sample, .count = outer_count}) : third;
      if (!fourth) break;
      for (size_t i = 0; i < base_->phases().size(); ++i) {
        PairedPhase& phase = phases[{row, base_->position().measurement, i}];
        phase.name = base_->phases()[i];
        // Other work only ever adds time, so each side speaks by the quicker of its two blocks.
        const double outer_log = std::min(log_median((*first)[i]), log_median((*fourth)[i]));
        const double inner_log = std::min(log_median((*second)[i]), log_median((*third)[i]));
        phase.log_ratios.push_back(base_first ? inner_log - outer_log : outer_log - inner_log);
        for (const auto* block : {&*first, &*second, &*third, &*fourth}) {
          const bool is_base = (block == &*first || block == &*fourth) == base_first;
          std::vector<double>& all = is_base ? phase.base_ms : phase.new_ms;
          all.insert(all.end(), (*block)[i].begin(), (*block)[i].end());
        }
      }
    }
    base_->stop();
    next_->stop();
  }

  bool over() const { return options_.interrupted && options_.interrupted(); }

  struct Block {
    int samples = 1;
    double ms = 1;
  };

  // How many samples fill a block, and what that takes.
  Block warm_up(Player& player) const {
    const auto samples = player.take({.kind = Turn::Kind::warm_up, .count = 3});
    if (!samples) return {};
    double total_ms = 0;
    for (const auto& phase : *samples) total_ms += median_of(phase);
    total_ms = std::max(total_ms, 1e-6);
    const double count =
        std::clamp<double>(std::ceil(options_.block_ms / total_ms), 1, kMaxBlockSamples);
    return {static_cast<int>(count), count * total_ms};
  }

  std::unique_ptr<Player> base_, next_;
  int index_;
  const InterleaveOptions& options_;
};

bool precise(const PhasesOfRow& phases, double target) {
  return std::all_of(phases.begin(), phases.end(), [&](const auto& entry) {
    const Shift shift = paired_shift(entry.second.log_ratios, confidence_for(phases.size()));
    return shift.high - shift.low <= 2 * target;
  });
}

// Time that the slowest row has spent in samples.
double seconds_spent(const PhasesOfRow& phases) {
  std::map<size_t, double> rows;
  for (const auto& [place, phase] : phases)
    for (const auto* samples : {&phase.base_ms, &phase.new_ms})
      rows[std::get<0>(place)] += std::accumulate(samples->begin(), samples->end(), 0.0) / 1e3;
  double most = 0;
  for (const auto& [row, seconds] : rows) most = std::max(most, seconds);
  return most;
}

}  // namespace

Interleaved interleave(const Command& base, const Command& next, const InterleaveOptions& options) {
  Interleaved result;
  PhasesOfRow phases;
  const auto goes_on = [&](int index) {
    return index < options.rounds || (!precise(phases, options.target_precision) &&
                                      seconds_spent(phases) < options.time_budget_s);
  };
  for (int index = 0; goes_on(index); ++index) {
    const auto of_round = [&](Command command) {
      if (index > 0) command.emplace_back("--no-verify");
      return command;
    };
    Round round(of_round(base), of_round(next), index, options);
    round.measure(phases);
    const auto base_records = round.base().finish();
    const auto next_records = round.next().finish();
    result.interrupted = !base_records || !next_records;
    if (result.interrupted) break;
    if (base_records->size() != next_records->size())
      throw Error(ErrorKind::usage,
                  fmt::format("the base has {} rows, the new side {}: rows are paired in order",
                              base_records->size(), next_records->size()),
                  "give both sides as many sizes");
    for (size_t row = 0; row < base_records->size() && index == 0; ++row)
      result.rows.push_back({(*base_records)[row], (*next_records)[row], {}});
    result.base.insert(result.base.end(), base_records->begin(), base_records->end());
    result.next.insert(result.next.end(), next_records->begin(), next_records->end());
  }
  for (auto& [place, phase] : phases)
    if (std::get<0>(place) < result.rows.size())
      result.rows[std::get<0>(place)].phases.push_back(std::move(phase));
  return result;
}

std::optional<std::vector<Record>> run_alone(const Command& command,
                                             const std::function<bool()>& interrupted) {
  ChildStudy child(command, {.lead = ChildStudy::Lead::none, .interrupted = interrupted});
  return child.finish();
}

}  // namespace ridgeline
