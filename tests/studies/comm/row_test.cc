// Rows of the study of collectives by threads, the fit of latency and bandwidth, and what people
// read of records made by hand.
#include "studies/comm/row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <thread>

#include "base/error.h"
#include "dist/threads_backend.h"
#include "measure/test_support.h"
#include "runtime/cpu_device.h"
#include "studies/comm/fit.h"
#include "studies/comm/rank.h"
#include "studies/comm/tables.h"

namespace ridgeline::comm_study_test {
namespace {

Record comm_row(CommWorkload workload) {
  CpuDevice device({.threads = 1});
  CommRunner runner(device, {.protocol = {.warmups = 1, .iterations = 6}}, nullptr);
  return runner.run(workload, runner.describe(workload, {})).value();
}

TEST(CommRows, OfThreadsAreExactForEveryCollectiveAndType) {
  for (const CollectiveInfo& collective : collective_kinds())
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      const Record record = comm_row({.collective = collective.kind,
                                      .bytes = Bytes{100'004 / 4 * info(dtype).size},
                                      .ranks = 3,
                                      .dtype = dtype,
                                      .backend = "threads"});
      ASSERT_EQ(record.status, Status::ok) << collective.name << record.error;
      EXPECT_EQ(record.verification.tensors.at(0).max_error, 0) << collective.name;
      EXPECT_EQ(record.series.size(), 3u);
      EXPECT_EQ(record.find_series("slowest_rank")->samples_ms.size(), 6u);
      EXPECT_EQ(record.metrics->at("backend").text(), "threads");
      EXPECT_GE(record.find_series("slowest_rank")->statistics.median_ms,
                record.find_series("fastest_rank")->statistics.median_ms);
    }
}

TEST(CommRows, ThatExceedTheBudgetAreNotTried) {
  CpuDevice device({.threads = 1, .ledger = {.budget = Bytes{1 << 20}}});
  CommRunner runner(device, {.protocol = {.warmups = 0, .iterations = 1}}, nullptr);
  const CommWorkload workload{.bytes = Bytes{1 << 20}, .ranks = 2};
  EXPECT_EQ(runner.run(workload, runner.describe(workload, {}))->status, Status::oom);
}

// A backend that leaves a NaN in the sums of rank 0; those of the others are exact.
class SpoilingCommunicator : public Communicator {
 public:
  explicit SpoilingCommunicator(std::unique_ptr<Communicator> inner) : inner_(std::move(inner)) {}
  const CommunicatorFacts& facts() const override { return inner_->facts(); }
  EventRef start(const Collective& what, std::vector<EventRef> after) override {
    return inner_->start(what, std::move(after));
  }
  void run(const Collective& what) override {
    inner_->run(what);
    if (what.kind == CollectiveKind::all_reduce && rank() == 0)
      *static_cast<float*>(what.out) = std::numeric_limits<float>::quiet_NaN();
  }

 private:
  std::unique_ptr<Communicator> inner_;
};

TEST(CommVerification, ANanOfOneRankIsWrongThoughTheOthersAreExact) {
  const Json request = to_json(CommRequest{
      .workload = {.bytes = Bytes{4096}, .ranks = 2, .dtype = DType::f32, .backend = "threads"},
      .protocol = {.warmups = 0, .iterations = 1},
      .verify = true});
  ThreadGroup group(2);
  Record record;
  const auto serve = [&](int rank) {
    SpoilingCommunicator communicator(group.communicator(rank));
    const Record answer = comm_task(communicator, request, {});
    if (rank == 0) record = answer;
  };
  std::thread other([&] { serve(1); });
  serve(0);
  other.join();
  EXPECT_EQ(record.status, Status::wrong);
  EXPECT_TRUE(std::isnan(record.verification.tensors.at(0).max_error));
}

TEST(CommMatrices, RefuseWhatIsNone) {
  const CommMatrix good{.backends = {"threads"},
                        .collectives = {"all-reduce"},
                        .sizes = {"1MB", "3B"},
                        .dtypes = {"fp32"},
                        .ranks = {2}};
  EXPECT_THROW(expand_matrix(good), Error) << "3 bytes hold no fp32";
  for (const auto change :
       {+[](CommMatrix& m) { m.backends = {"nccl2"}; }, +[](CommMatrix& m) { m.ranks = {1}; },
        +[](CommMatrix& m) { m.collectives = {"gather"}; },
        +[](CommMatrix& m) { m.dtypes = {"tf32"}; }}) {
    CommMatrix bad = good;
    bad.sizes = {"1MB"};
    EXPECT_EQ(expand_matrix(bad).size(), 1u);
    change(bad);
    EXPECT_THROW(expand_matrix(bad), Error);
  }
}

TEST(CommFits, FindLatencyAndBandwidthAndSayHowFarTheyAreOff) {
  std::vector<CommPoint> points;
  for (const double bytes : {1e6, 1e7, 1e8, 1e9}) points.push_back({bytes, 2e-4 + bytes / 4e9});
  const auto fit = fit_latency_and_bandwidth(points, 1.5);
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->alpha_s, 2e-4, 1e-9);
  EXPECT_NEAR(fit->beta_bytes_per_s, 6e9, 1e3);
  EXPECT_LT(fit->worst_residual, 1e-9);
  points[1].seconds *= 2;
  EXPECT_GT(fit_latency_and_bandwidth(points, 1.5)->worst_residual, 0.2);
  points.resize(2);
  EXPECT_FALSE(fit_latency_and_bandwidth(points, 1.5)) << "any line meets two points";
}

Record made_row(const std::string& backend, int ranks, int64_t bytes, double ms) {
  Record record;
  record.study = "comm";
  record.implementation = backend;
  record.device = "cpu";
  record.workload = {
      {"collective", "all-reduce"}, {"bytes", bytes}, {"ranks", ranks}, {"dtype", "fp32"}};
  record.settings = {{"launcher", "ridgeline"}};
  record.machine.logical_cores = 2;
  be_quiet(record);
  for (const char* series : {"slowest_rank", "mean_rank", "fastest_rank"}) {
    std::vector<double> samples;
    for (int i = 0; i < 12; ++i) samples.push_back(ms * (1 + 0.001 * i));
    record.series.push_back({series, summarize(samples), samples});
  }
  record.metrics = Json{{"backend", backend}, {"library", backend + " 1.0"}};
  return record;
}

bool any_has(const std::vector<std::string>& notes, std::string_view part) {
  for (const std::string& note : notes)
    if (note.find(part) != note.npos) return true;
  return false;
}

TEST(CommTables, HaveTheFitOfAllSizesAndTheLibraryThatServed) {
  std::vector<Record> records;
  for (const int64_t bytes : {1'000'000, 10'000'000, 100'000'000})
    records.push_back(made_row("gloo", 4, bytes, 0.2 + static_cast<double>(bytes) / 1e6));
  const Table csv = comm_csv(records);
  const auto column = [&](const std::string& name) {
    return static_cast<size_t>(std::ranges::find(csv.columns, name) - csv.columns.begin());
  };
  ASSERT_EQ(csv.rows.size(), 3u);
  EXPECT_EQ(csv.rows[0][column("library")], "gloo 1.0");
  EXPECT_NEAR(std::stod(csv.rows[0][column("alpha_us")]), 200, 5);
  EXPECT_NEAR(std::stod(csv.rows[2][column("beta_gb_per_s")]), 1.5, 0.01);
  for (const auto& row : csv.rows) EXPECT_EQ(row.size(), csv.columns.size());
  EXPECT_EQ(comm_summary(records).rows.size(), 3u);
}

TEST(CommNotes, SayNoMoreThanTheDataDo) {
  std::vector<Record> records = {made_row("threads", 2, 1'000'000, 1),
                                 made_row("gloo", 2, 1'000'000, 3)};
  const std::vector<std::string> two = with_verdicts<comm_notes>(records);
  EXPECT_TRUE(any_has(two, "threads against gloo is")) << two[0];
  EXPECT_FALSE(any_has(two, "ranks take")) << "one number of ranks";
  EXPECT_FALSE(any_has(two, "alpha")) << "one size";
  records.push_back(made_row("gloo", 4, 1'000'000, 9));
  const std::vector<std::string> grown = with_verdicts<comm_notes>(records);
  EXPECT_TRUE(any_has(grown,
                      "4 ranks take 3.00x as long as 2; a rank has to send 1.50x as much, "
                      "and 4 ranks share 2 processors"))
      << grown[1];
  records.back() = made_row("gloo", 4, 1'000'000, 2.8);
  const std::vector<std::string> noise = with_verdicts<comm_notes>(records);
  EXPECT_TRUE(any_has(noise, "whether 4 ranks take longer than 2 is undecided (")) << noise[1];
}

TEST(CommNotes, DoNotExtrapolateWhereLatencyEnds) {
  const auto notes_of = [](double latency_ms) {
    std::vector<Record> records;
    for (const int64_t bytes : {1'000'000, 2'000'000, 4'000'000})
      records.push_back(made_row("gloo", 2, bytes, latency_ms + static_cast<double>(bytes) / 1e6));
    return with_verdicts<comm_notes>(records);
  };
  EXPECT_TRUE(any_has(notes_of(2), "; below 1.91 MiB latency is the larger part"));
  EXPECT_TRUE(any_has(notes_of(8), "; latency is the larger part at all of these sizes"));
  EXPECT_TRUE(any_has(notes_of(0.5), "; latency is the smaller part at all of these sizes"));
}

TEST(CommNotes, SayThatResultsWereComparedOnlyIfTheyWere) {
  std::vector<Record> records = {made_row("threads", 2, 1'000'000, 1),
                                 made_row("gloo", 2, 1'000'000, 3)};
  for (Record& record : records) {
    EXPECT_FALSE(any_has(with_verdicts<comm_notes>(records), "exact sums"));
    EXPECT_TRUE(any_has(with_verdicts<comm_notes>(records), "as nccl-tests counts"));
    record.verification.checked = true;
  }
  EXPECT_TRUE(any_has(with_verdicts<comm_notes>(records), "exact sums"));
}

TEST(CommReport, SaysThatResultsAreExactOnlyIfAllWereChecked) {
  ReportInput input{
      .records = {made_row("threads", 2, 1'000'000, 1), made_row("gloo", 2, 1'000'000, 3)}};
  const auto why = [&] { return comm_section(report_context(input)).certainty.why; };
  for (Record& record : input.records) {
    EXPECT_LACKS(why(), "exact sums");
    record.verification.checked = true;
  }
  EXPECT_HAS(why(), "exact sums");
}

}  // namespace
}  // namespace ridgeline::comm_study_test
