#include "measure/record.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "measure/record_json.h"
#include "measure/record_values.h"
#include "measure/test_support.h"

namespace ridgeline {
namespace {

// Every field differs from its default, so that a field dropped from the tables is noticed.
Record full_record() {
  Record r = attention_record({});
  r.settings = {{"threads", 2}, {"isa", "avx512"}, {"seed", 42}};
  r.status = Status::wrong;
  r.error = "dQ is off by 0.5";
  r.series.push_back(series_of("odd numbers", {0.1, 1.0 / 3, 1e-300, 5e-324, 123456789.123456789}));
  r.protocol = {3, 7, StoppingRule::budget_spent, 1.25};
  r.memory = {.before_backward = Bytes{1},
              .peak = Bytes{int64_t{1} << 62},
              .predicted_before_backward = Bytes{3},
              .predicted_peak = Bytes{4},
              .predicted_quadratic = Bytes{5},
              .process_peak_growth = Bytes{-6},
              .driver_peak_growth = Bytes{7}};
  r.verification = {true, "sampled rows", "fp128", {{"output", 1e-7, 1e-5}, {"dQ", 2e-7, 2e-5}}};
  r.cost = CostFacts{{1, 2, Bytes{3}}, {4, 5, Bytes{6}}, "an FMA counts as two"};
  r.machine = {"Acme",    2,        1.5,         {"avx2"},  {{1, "Data", Bytes{48}}},
               Bytes{7},  Bytes{8}, "6.1",       "Acme OS", 3000.5,
               "cpufreq", 2999.5,   "powersave", 0.5,       "0123"};
  r.machine.gpu = GpuFacts{"Acme 200", "sm_90a", 132, Bytes{9}, 1980, "driver 580"};
  r.metrics = Json{{"forward", {{"gflops_per_s", 1.5}}}};
  r.speed_after =
      ProcessorSpeed{.threads = 2, .alone_gflops = 31, .together_gflops = 16, .memory_gb_per_s = 8};
  r.device_before = DeviceState{.clock_mhz = 1980,
                                .memory_clock_mhz = 3201,
                                .clocks_locked = false,
                                .power_w = 120.5,
                                .temperature_c = 33,
                                .throttle_reasons = "none"};
  r.device_after = DeviceState{.clock_mhz = 1755, .throttle_reasons = "sw_power_cap"};
  r.build = {"0.1.0", "g++ 12", "Release", "-O2", "abc123"};
  r.command = "ridgeline attention --seq-len 256";
  return r;
}

TEST(Record, ReadsBackExactlyWhatWasWritten) {
  const Record record = full_record();
  EXPECT_EQ(record_from_json(Json::parse(to_line(record))), record);
}

// Files from before GPUs were measured have no GPU fields.
TEST(Record, WhatOnlyAGpuHasIsOptional) {
  const std::string line = to_line(attention_record({}));
  for (const char* field : {"gpu", "metrics", "device_before", "driver_peak_growth_bytes"})
    EXPECT_LACKS(line, field);
  const Record back = record_from_json(Json::parse(line));
  EXPECT_EQ(back.machine.gpu, std::nullopt);
  EXPECT_EQ(back.metrics, std::nullopt);
  EXPECT_EQ(back.device_after, std::nullopt);
}

TEST(Record, OnlySomeErrorsAreTheEndOfARowAndNotOfTheStudy) {
  EXPECT_EQ(status_of(Error(ErrorKind::out_of_memory, "x")), Status::oom);
  EXPECT_EQ(status_of(Error(ErrorKind::unsupported, "x")), Status::unsupported);
  EXPECT_EQ(status_of(Error(ErrorKind::environment, "x")), std::nullopt);
  EXPECT_EQ(status_of(Error(ErrorKind::usage, "x")), std::nullopt);
}

TEST(Record, ReadsBackAnEmptyOne) {
  const Record record;
  const Record back = record_from_json(Json::parse(to_line(record)));
  EXPECT_EQ(to_json(back), to_json(record));
}

TEST(Record, LinesStartWithTheSchemaAndHoldNoOtherNewline) {
  Record record = full_record();
  record.error = "two\nlines";
  const std::string line = to_line(record);
  EXPECT_EQ(line.rfind(R"({"schema":1,"study":"attention")", 0), 0u);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
}

TEST(Record, TheWorkloadKeepsItsOrder) {
  const std::string line = to_line(attention_record({}));
  EXPECT_LT(line.find("batch_size"), line.find("seq_len"));
  EXPECT_LT(line.find("seq_len"), line.find("d_model"));
}

TEST(Record, NumbersThatAreNotFiniteBecomeNullAndComeBackAsNaN) {
  Record record = attention_record({});
  record.verification = {true, "whole tensors", "fp64", {{"output", INFINITY, 1e-5}}};
  record.series = {{"forward", Statistics{}, {1, NAN, -INFINITY}}};
  const Json json = Json::parse(to_line(record));
  EXPECT_TRUE(json["verification"]["tensors"]["output"]["max_error"].is_null());
  const Record back = record_from_json(json);
  EXPECT_TRUE(std::isnan(back.verification.tensors[0].max_error));
  EXPECT_TRUE(std::isnan(back.series[0].statistics.median_ms));
  EXPECT_EQ(back.series[0].samples_ms[0], 1);
  EXPECT_TRUE(std::isnan(back.series[0].samples_ms[1]));
  EXPECT_TRUE(std::isnan(back.series[0].samples_ms[2]));
}

TEST(Record, TextThatIsNotUtf8IsMendedAndNotThrown) {
  Record record = attention_record({});
  record.error = "bad \xff byte";
  const Record back = record_from_json(Json::parse(to_line(record)));
  EXPECT_EQ(back.error, "bad \xef\xbf\xbd byte");
}

TEST(Record, HostileTextSurvivesTheRoundTrip) {
  Record record = attention_record({});
  record.implementation = std::string("\0\x1b[31m\"},{\\u0000 <script>", 24);
  record.error = std::string(1 << 20, 'x');
  EXPECT_EQ(record_from_json(Json::parse(to_line(record))), record);
}

TEST(Record, ErrorsNameTheFieldAndWhatItHeld) {
  const auto with = [](std::string_view path, const Json& value) {
    Json json = to_json(full_record());
    Json* place = &json;
    for (size_t slash = 0; slash != path.npos;) {
      const size_t next = path.find('/', slash + 1);
      place = &(*place)[path.substr(slash + 1, next == path.npos ? next : next - slash - 1)];
      slash = next;
    }
    *place = value;
    return json;
  };
  const auto usage = ErrorKind::usage;
  EXPECT_ERROR(record_from_json(Json(7)), usage, "number instead of a record");
  EXPECT_ERROR(record_from_json(with("/schema", 2)), usage, "schema version 2");
  EXPECT_ERROR(record_from_json(with("/status", "fine")), usage, "'status'");
  EXPECT_ERROR(record_from_json(with("/study", 5)), usage, "'study' holds number: expected text");
  EXPECT_ERROR(record_from_json(with("/workload", Json::array())), usage, "'workload' holds array");
  EXPECT_ERROR(record_from_json(with("/series/forward/statistics/mean_ms", "fast")), usage,
               "'series.forward.statistics.mean_ms' holds string");
  EXPECT_ERROR(record_from_json(with("/memory/peak_bytes", 1e300)), usage, "'memory.peak_bytes'");
  EXPECT_ERROR(record_from_json(with("/memory/peak_bytes", UINT64_MAX)), usage, "64 bits");
  EXPECT_ERROR(record_from_json(with("/protocol/warmups", int64_t{1} << 40)), usage, "smaller");
  EXPECT_ERROR(record_from_json(with("/machine/isa", "avx2")), usage, "expected an array");
}

TEST(Record, EachRequiredFieldIsMissedByName) {
  for (const char* name :
       {"schema", "study", "time", "implementation", "device", "workload", "status"}) {
    Json json = to_json(full_record());
    json.erase(name);
    EXPECT_ERROR(record_from_json(json), ErrorKind::usage,
                 std::string("'") + name + "' is missing");
  }
}

TEST(Record, TheLeastThatAnotherProgramMustWriteIsRead) {
  const Record record = record_from_json(Json::parse(
      R"({"schema":1,"study":"attention","time":"2026-01-31T00:00:00Z","workload":{"seq_len":256},
          "implementation":"torch.sdpa","device":"cpu","status":"ok","unknown":[1,{"a":2}]})"));
  EXPECT_EQ(record.implementation, "torch.sdpa");
  EXPECT_EQ(record.status, Status::ok);
}

TEST(WorkloadKey, IgnoresKeyOrderTimesAndResults) {
  Record a = full_record(), b = full_record();
  b.workload = Json::object();
  for (size_t i = a.workload.size(); i-- > 0;)
    b.workload[a.workload.items()[i].key] = a.workload.items()[i].value;
  b.time = "later";
  b.series.clear();
  b.status = Status::oom;
  EXPECT_EQ(workload_key(a), workload_key(b));
}

TEST(WorkloadKey, TellsRowsApart) {
  const Record base = full_record();
  const auto changed = [&](auto change) {
    Record other = base;
    change(other);
    return workload_key(other);
  };
  EXPECT_NE(changed([](Record& r) { r.study = "model"; }), workload_key(base));
  EXPECT_NE(changed([](Record& r) { r.implementation = "flash"; }), workload_key(base));
  EXPECT_NE(changed([](Record& r) { r.device = "cuda"; }), workload_key(base));
  EXPECT_NE(changed([](Record& r) { r.workload["dtype"] = "bf16"; }), workload_key(base));
  EXPECT_NE(changed([](Record& r) { r.settings["threads"] = 1; }), workload_key(base));
}

TEST(WorstError, OfExactResultsIsAShareToo) {
  Record record;
  record.verification.checked = true;
  record.verification.tensors = {{"result", 0, 0}};
  EXPECT_EQ(worst_error(record), 0);
  record.verification.tensors.push_back({"other", 1, 4});
  EXPECT_EQ(worst_error(record), 0.25);
  record.verification.tensors[0].max_error = 1e-9;
  EXPECT_EQ(worst_error(record), INFINITY) << "nothing is allowed";
  record.verification.tensors[0].max_error = NAN;
  EXPECT_TRUE(std::isnan(worst_error(record).value()));
  record.verification.checked = false;
  EXPECT_EQ(worst_error(record), std::nullopt);
}

TEST(Status, HasAWordForRecordsAndOneForCsv) {
  EXPECT_EQ(status_name(Status::ok), "ok");
  EXPECT_EQ(status_csv_word(Status::ok), "success");
  EXPECT_EQ(status_name(Status::oom), "oom");
  EXPECT_EQ(status_csv_word(Status::oom), "OOM");
  for (const Status status : {Status::ok, Status::oom, Status::unsupported, Status::wrong,
                              Status::invalid, Status::skipped}) {
    EXPECT_EQ(parse_status(status_name(status)), status);
    EXPECT_EQ(parse_status(status_csv_word(status)), status);
  }
  EXPECT_EQ(parse_status("OK"), std::nullopt);
}

TEST(RecordsJson, HoldsEveryRecordWithItsRawSamples) {
  const Record record = attention_record({});
  const Json all = Json::parse(to_array(std::vector{record, record}));
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(record_from_json(all[1]), record);
  EXPECT_EQ(Json::parse(to_array({})), Json::array());
}

TEST(UtcNow, IsIso8601) {
  const std::string now = utc_now();
  ASSERT_EQ(now.size(), 20u) << now;
  EXPECT_EQ(now[10], 'T');
  EXPECT_EQ(now[19], 'Z');
  EXPECT_GE(now, "2025");
}

}  // namespace
}  // namespace ridgeline
