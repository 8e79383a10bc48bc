// A rank that trains with others under every strategy, for tests of backends between processes:
// all ranks must have the same bits, and be as near to fp64 as one process, within twice its error.
//
//   trained_ranks gloo [cuda]
#include <sys/prctl.h>

#include <csignal>
#include <cstring>
#include <iostream>

#include <fmt/format.h>

#include "base/error.h"
#include "compile/training_steps.h"
#include "dist/world.h"
#include "runtime/rank_device.h"

namespace ridgeline::testing {
namespace {

constexpr int kSteps = 20;
constexpr double kMostOfOneProcess = 2;

struct NamedStep {
  const char* name;
  Graph (*make)(bool gradients_alone, double loss_weight, const Rewrite& forward);
};
constexpr NamedStep kTrained[] = {{"uneven", uneven_step}, {"transformer", transformer_step}};

// The parameters of all ranks: zeros where a rank has no part, so that bits can be united.
std::vector<Weights> weights_of_all(const OneRank& rank, Communicator& communicator,
                                    const Weights& whole) {
  Weights mine;
  for (const auto& [name, values] : whole) mine[name].assign(values.size(), 0);
  rank.write_held(mine);
  std::vector<float> flat;
  for (const auto& [name, values] : mine) flat.insert(flat.end(), values.begin(), values.end());
  std::vector<float> gathered(static_cast<size_t>(communicator.size()) * flat.size());
  communicator.run({.kind = CollectiveKind::all_gather,
                    .dtype = DType::i32,
                    .count = static_cast<int64_t>(gathered.size()),
                    .in = flat.data(),
                    .out = gathered.data()});
  std::vector<Weights> all(static_cast<size_t>(communicator.size()), mine);
  auto from = gathered.begin();
  for (Weights& of_rank : all)
    for (auto& [name, values] : of_rank) {
      const auto end = from + static_cast<std::ptrdiff_t>(values.size());
      std::copy(from, end, values.begin());
      from = end;
    }
  return all;
}

void unite(Weights& to, const Weights& other) {
  for (auto& [name, values] : to)
    for (size_t i = 0; i < values.size(); ++i)
      values[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(values[i]) |
                                       std::bit_cast<uint32_t>(other.at(name)[i]));
}

bool have_same_bits(const Weights& a, const Weights& b) {
  for (const auto& [name, values] : a)
    if (std::memcmp(values.data(), b.at(name).data(), values.size() * sizeof(float)) != 0)
      return false;
  return true;
}

// Whether a strategy has trained as it should; rank 0 says how.
bool train(const NamedStep& step, const ParallelStrategyInfo& strategy, Communicator& communicator,
           const std::string& device, const std::vector<Weights>& of_one,
           const std::vector<ExactProcess>& exact) {
  const Distribution how{
      .strategy = strategy.strategy, .ranks = communicator.size(), .bucket = Bytes{6000}};
  OneRank rank(
      step.make, Mode::vanilla, how, communicator,
      [&] {
        return make_rank_device({.kind = device, .deterministic = true}, communicator.rank());
      },
      communicator.facts().backend);
  double worst = 0;
  bool same = true, near = true;
  for (int number = 1; number <= kSteps; ++number) {
    const auto at = static_cast<size_t>(number - 1);
    rank.step(number);
    std::vector<Weights> all = weights_of_all(rank, communicator, of_one[at]);
    for (size_t other = 1; other < all.size(); ++other) {
      if (strategy.shards_moments)
        unite(all[0], all[other]);
      else
        same = same && have_same_bits(all[0], all[other]);
    }
    const double error = exact[at].error_of(all[0]), one = exact[at].error_of(of_one[at]);
    near = near && error <= kMostOfOneProcess * one;
    if (one > 0) worst = std::max(worst, error / one);
  }
  if (communicator.rank() == 0)
    std::cout << fmt::format(
                     "{} {} by {} on {}: {}, at most {:.3f} times the error of one process in {} "
                     "steps{}",
                     step.name, strategy.name, communicator.facts().library, device,
                     same ? "one set of bits" : "RANKS DIFFER", worst, kSteps,
                     near ? "" : ": TOO FAR")
              << std::endl;
  return same && near;
}

int run(const std::string& backend, const std::string& device) {
  World world(*launched_rank(), {.build = "test", .configuration = backend});
  const std::unique_ptr<Communicator> communicator = world.communicator(backend);
  const MakeDevice here = [&] {
    return make_rank_device({.kind = device, .deterministic = true}, communicator->rank());
  };
  bool is_right = true;
  for (const NamedStep& step : kTrained) {
    OneProcess alone(step.make, Mode::vanilla, communicator->size(), here);
    ExactProcess process(step.make, communicator->size());
    std::vector<Weights> of_one;
    std::vector<ExactProcess> exact;
    for (int number = 1; number <= kSteps; ++number) {
      alone.step(number);
      process.step(number);
      of_one.push_back(alone.weights());
      exact.push_back(process);
    }
    for (const ParallelStrategyInfo& strategy : parallel_strategies())
      is_right = train(step, strategy, *communicator, device, of_one, exact) && is_right;
  }
  if (communicator->rank() == 0) std::cout << (is_right ? "right" : "wrong") << std::endl;
  return is_right ? 0 : exit_code(ErrorKind::wrong_result);
}

}  // namespace
}  // namespace ridgeline::testing

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  try {
    return ridgeline::testing::run(argc > 1 ? argv[1] : "gloo", argc > 2 ? argv[2] : "cpu");
  } catch (const ridgeline::Error& error) {
    std::cerr << error.what() << std::endl;
    return exit_code(error.kind());
  }
}
