// What ranks find out about each other: parameters that differ, and which failure was first.
#include "studies/ddp/rank.h"

#include <gtest/gtest.h>

#include <exception>
#include <set>
#include <thread>

#include "base/error.h"
#include "base/machine_limits.h"
#include "dist/threads_backend.h"
#include "measure/test_support.h"
#include "profile/trace_check.h"
#include "studies/ddp/forecast.h"
#include "studies/ddp/tables.h"
#include "studies/ranks/group.h"
#include "support/tiny_transformer.h"

namespace ridgeline::ddp_study_test {
namespace {

// The record of rank 0 of three, of which the last one draws its parameters by another seed.
Record trained_with(ParallelStrategy strategy, uint64_t seed_of_last) {
  DdpRequest request;
  request.protocol = {.warmups = 0, .iterations = 2};
  request.workload.model.config = testing::tiny_transformer();
  request.workload.model.mode = Mode::vanilla;
  request.workload.distribution = {.strategy = strategy, .ranks = 3};
  ThreadGroup group(3);
  std::vector<std::unique_ptr<Communicator>> communicators;
  for (int rank = 0; rank < 3; ++rank) communicators.push_back(group.communicator(rank));
  Record first;
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < 3; ++rank)
    threads.emplace_back([&, rank] {
      DdpRequest mine = request;
      if (rank == 2) mine.seed = seed_of_last;
      Record record = ddp_task(*communicators[rank], to_json(mine), {});
      if (rank == 0) first = std::move(record);
    });
  threads.clear();
  return first;
}

TEST(DdpRanks, WhoseParametersDifferMakeTheRowWrong) {
  std::set<std::string> hashes;
  for (const ParallelStrategyInfo& strategy : parallel_strategies()) {
    const Record same = trained_with(strategy.strategy, DdpRequest{}.seed);
    EXPECT_EQ(same.status, Status::ok) << strategy.name << same.error;
    EXPECT_EQ(same.verification.checked, !strategy.shards_moments)
        << "no two ranks have a part of " << strategy.name << " that could be compared";
    const Record other = trained_with(strategy.strategy, DdpRequest{}.seed + 1);
    EXPECT_EQ(other.status, strategy.shards_moments ? Status::ok : Status::wrong) << strategy.name;
    // Also where nobody can compare, strategies are compared with each other.
    EXPECT_NE(same.metrics->at("parameters_hash").text(),
              other.metrics->at("parameters_hash").text())
        << strategy.name;
    hashes.insert(same.metrics->at("parameters_hash").text());
  }
  EXPECT_EQ(hashes.size(), 1u);
}

// Two ranks with a trace of their last step.
Record traced(ParallelStrategy strategy, const std::filesystem::path& trace) {
  DdpRequest request;
  request.protocol = {.warmups = 0, .iterations = 2};
  request.workload.model.config = testing::tiny_transformer();
  request.workload.model.mode = Mode::vanilla;
  request.workload.distribution = {.strategy = strategy, .ranks = 2};
  request.trace = trace.string();
  ThreadGroup group(2);
  const auto first = group.communicator(0), second = group.communicator(1);
  std::jthread other([&] { ddp_task(*second, to_json(request), {}); });
  return ddp_task(*first, to_json(request), {});
}

TEST(DdpRanks, TraceWhatTheyComputeAndCommunicate) {
  const TempDir folder;
  for (const ParallelStrategy strategy : {ParallelStrategy::overlapped, ParallelStrategy::fsdp}) {
    const std::filesystem::path file = folder / std::string(info(strategy).name);
    const Record record = traced(strategy, file);
    const testing::ReadTrace trace = testing::read_trace(read_text(file));
    EXPECT_EQ(testing::overlap_in(trace.events), "");
    EXPECT_EQ(static_cast<double>(testing::events_of(trace, "X", "collective").size()),
              2 * record.metrics->at("collectives").get<double>())
        << "of two ranks";
    std::set<std::pair<int64_t, int64_t>> tracks;
    for (const Json* event : testing::events_of(trace, "X"))
      tracks.insert({event->at("pid").get<int64_t>(), event->at("tid").get<int64_t>()});
    EXPECT_EQ(tracks, (std::set<std::pair<int64_t, int64_t>>{{0, 0}, {0, 1}, {1, 0}, {1, 1}}));
  }
}

TEST(DdpRanks, SayWhatAStepShouldTake) {
  const Record record = trained_with(ParallelStrategy::overlapped, DdpRequest{}.seed);
  const auto metric = [&](const char* name) { return record.metrics->at(name).get<double>(); };
  EXPECT_GT(metric("compute_ms"), 0);
  EXPECT_GT(metric("compute_alone_ms"), 0);
  EXPECT_GT(metric("predicted_communication_ms"), 0);
  EXPECT_GE(metric("predicted_step_ms"), metric("compute_ms"));
  EXPECT_LE(metric("predicted_step_ms"),
            metric("compute_ms") + metric("sharing") * metric("predicted_communication_ms"));
}

TEST(SharedHosts, SlowDownWhatIsHiddenWhereProcessorsAreMissing) {
  EXPECT_DOUBLE_EQ((SharedHost{.ranks = 4, .threads = 3, .processors = 16}).sharing(), 1);
  EXPECT_DOUBLE_EQ((SharedHost{.ranks = 6, .threads = 2, .processors = 16}).sharing(), 18.0 / 16);
  EXPECT_DOUBLE_EQ((SharedHost{.ranks = 4, .threads = 1, .processors = 2}).sharing(), 2);
  EXPECT_DOUBLE_EQ((SharedHost{.ranks = 4, .threads = 0, .processors = 2}).sharing(), 1) << "GPUs";
}

TEST(DdpHashes, OfShardsAddUpAndOfWholeParametersAreOne) {
  EXPECT_EQ(parameters_hash(std::vector<uint64_t>{5, 7, 0}, true).value, 12u);
  EXPECT_EQ(parameters_hash(std::vector<uint64_t>{0, 0}, false).value, 0u);
  EXPECT_TRUE(parameters_hash(std::vector<uint64_t>{9, 9, 9}, false).is_same);
  EXPECT_FALSE(parameters_hash(std::vector<uint64_t>{9, 9, 8}, false).is_same);
}

std::string notes_on_hashes(const std::string& backend, int ranks) {
  std::vector<Record> records;
  for (const char* strategy : {"naive", "flat"}) {
    Record record;
    record.study = "ddp";
    record.implementation = strategy;
    record.workload = Json{{"backend", backend}, {"ranks", ranks}};
    record.metrics = Json{{"parameters_hash", strategy}};
    Series& step = record.series.emplace_back();
    step.name = kDdpStep;
    step.samples_ms = {1, 1, 1};
    step.statistics = summarize(step.samples_ms);
    records.push_back(record);
  }
  std::string text;
  for (const std::string& note : with_verdicts<ddp_notes>(records)) text += note + "\n";
  return text;
}

TEST(DdpHashes, ThatDifferAreAnErrorWhereSumsHaveOneOrder) {
  for (const auto& [backend, ranks] : {std::pair("threads", 4), std::pair("gloo", 2)})
    EXPECT_HAS(notes_on_hashes(backend, ranks), "which they should not");
  EXPECT_HAS(notes_on_hashes("gloo", 4), "which different orders of sums can do");
}

TEST(FailuresOfRanks, TheCauseIsToldAndNotWhatItDidToOthers) {
  const auto failure = [](ErrorKind kind, const char* what) {
    return std::make_exception_ptr(Error(kind, what));
  };
  const auto told = [](std::vector<std::exception_ptr> failures) -> std::string {
    try {
      if (const std::exception_ptr cause = cause_of(failures)) std::rethrow_exception(cause);
    } catch (const std::exception& error) {
      return error.what();
    }
    return {};
  };
  const auto lost = failure(ErrorKind::environment, "a rank is gone");
  const auto full = failure(ErrorKind::out_of_memory, "memory is full");
  EXPECT_EQ(told({lost, full, lost}), "memory is full");
  EXPECT_EQ(told({nullptr, lost, nullptr}), "a rank is gone");
  EXPECT_EQ(told({lost, std::make_exception_ptr(std::bad_alloc())}), std::bad_alloc().what());
  EXPECT_EQ(told({nullptr, nullptr}), "");
}

TEST(DdpMatrices, ShareTheThreadsOfAHostAmongTheRanksOnIt) {
  DdpMatrix all;
  all.models.resize(1);
  all.backends = {"gloo"};
  all.strategies = {"flat"};
  all.ranks = {256};
  EXPECT_EQ(expand_matrix(all).at(0).threads, 1);
  DdpMatrix spread = all;
  spread.ranks_of_host = 1;
  EXPECT_EQ(expand_matrix(spread).at(0).threads, available_threads());
}

}  // namespace
}  // namespace ridgeline::ddp_study_test
