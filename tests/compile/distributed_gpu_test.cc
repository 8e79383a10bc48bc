// Training on ranks that compute on a GPU: collectives by NCCL in the launch graph of a step, and
// staged through the host where ranks share a GPU. Needs a GPU.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "base/error.h"
#include "compile/training_steps.h"
#include "jit/cuda_libraries.h"
#include "support/gpu.h"

namespace ridgeline {
namespace {

using testing::ExactProcess;
using testing::OneProcess;
using testing::ThreadRanks;
using testing::Weights;

constexpr int kGpuSteps = 5;  // of compiled ones: the first as it is, one recorded, three replays
constexpr double kMostOnGpu = 2;

std::unique_ptr<Device> one_gpu() {
  return std::make_unique<CudaDevice>(CudaOptions{.deterministic = true});
}

void expect_times(const std::vector<CollectiveRun>& runs, int64_t after_ns,
                  const std::string& where) {
  ASSERT_FALSE(runs.empty()) << where;
  for (const CollectiveRun& run : runs) {
    EXPECT_GT(run.began_ns, after_ns) << where << ", " << run.name;
    EXPECT_GE(run.ended_ns, run.began_ns) << where << ", " << run.name;
    EXPECT_GE(run.waited_ns, 0) << where << ", " << run.name;
  }
}

// Every strategy on `ranks` ranks of one GPU against one process on it: bits of all ranks are the
// same, their error against fp64 is at most twice that of one process, and every step, a replay as
// well, tells when its collectives ran.
void expect_trained(int ranks, const std::string& backend, Mode mode) {
  for (const auto& [name, make] :
       {std::pair<std::string, testing::MakeStep>{"uneven", testing::uneven_step},
        {"transformer", testing::transformer_step}}) {
    if (name == "uneven" && mode != Mode::vanilla) continue;  // as on CPUs
    OneProcess alone(make, mode, ranks, one_gpu);
    ExactProcess exact(make, ranks);
    std::vector<double> of_one;
    std::vector<ExactProcess> expected;
    std::vector<Weights> weights_of_one;
    for (int step = 1; step <= kGpuSteps; ++step) {
      alone.step(step);
      exact.step(step);
      weights_of_one.push_back(alone.weights());
      of_one.push_back(exact.error_of(weights_of_one.back()));
      expected.push_back(exact);
    }
    for (const ParallelStrategyInfo& strategy : parallel_strategies()) {
      const std::string what = fmt::format("{} {} {}, {} ranks by {}", name, strategy.name,
                                           info(mode).name, ranks, backend);
      ThreadRanks all(make, mode,
                      {.strategy = strategy.strategy, .ranks = ranks, .bucket = Bytes{6000}},
                      one_gpu, backend);
      double worst = 0;
      int same_as_one = 0;
      int64_t last_ns = 0;
      for (int step = 1; step <= kGpuSteps; ++step) {
        const auto at = static_cast<size_t>(step - 1);
        all.step(step);
        const std::string where = fmt::format("{}, step {}", what, step);
        const std::vector<CollectiveRun> runs = all.executable(0).collectives();
        expect_times(runs, last_ns, where);
        for (const CollectiveRun& run : runs) last_ns = std::max(last_ns, run.ended_ns);
        const Weights first = all.weights(0);
        for (size_t rank = 1; rank < static_cast<size_t>(ranks); ++rank)
          testing::expect_same_bits(all.weights(rank), first, where);
        const double error = expected[at].error_of(first);
        EXPECT_LE(error, kMostOnGpu * of_one[at]) << where;
        worst = std::max(worst, error / of_one[at]);
        same_as_one += first == weights_of_one[at];
        if (::testing::Test::HasFatalFailure()) return;
      }
      fmt::print("{} ({}): {} of {} steps equal to one process, at most {:.3f} times its error\n",
                 what, all.facts(0).library, same_as_one, kGpuSteps, worst);
    }
  }
}

class DistributedGpu : public ::testing::TestWithParam<Mode> {};
INSTANTIATE_TEST_SUITE_P(Modes, DistributedGpu, ::testing::Values(Mode::vanilla, Mode::compiled));

TEST_P(DistributedGpu, OneRankOfNcclTrainsAsOneProcess) {
  RIDGELINE_NEEDS_GPU();
  if (!cuda_library("nccl")) GTEST_SKIP() << "no NCCL";
  expect_trained(1, "nccl", GetParam());
}

TEST_P(DistributedGpu, RanksThatShareAGpuAreStagedThroughTheHost) {
  RIDGELINE_NEEDS_GPU();
  expect_trained(2, "threads", GetParam());
}

}  // namespace
}  // namespace ridgeline
