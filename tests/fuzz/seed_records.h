// Good records of every study, with every field that a reader may look for.
#pragma once

#include <string>
#include <vector>

#include "measure/record.h"
#include "measure/record_json.h"
#include "measure/test_support.h"

namespace ridgeline {

inline Record seed_record(const std::string& study, const std::string& implementation,
                          Json workload, const std::vector<std::string>& series, Json metrics) {
  Record record;
  record.study = study;
  record.implementation = implementation;
  record.device = "cpu";
  record.time = "2026-01-31T12:34:56Z";
  record.workload = std::move(workload);
  record.settings = {{"threads", 2}, {"isa", "avx2"}, {"seed", 42}, {"mode", "hot"}};
  for (const std::string& name : series)
    record.series.push_back(series_of(name, {1.01, 0.99, 1, 1.02, 0.98, 1, 1.03}));
  record.protocol.iterations = 7;
  record.protocol.first_run_s = 0.5;
  record.memory = {.before_backward = Bytes{1 << 20},
                   .peak = Bytes{2 << 20},
                   .predicted_before_backward = Bytes{1 << 20},
                   .predicted_peak = Bytes{2 << 20},
                   .predicted_quadratic = Bytes{1 << 19},
                   .process_peak_growth = Bytes{3 << 20}};
  record.cost = CostFacts{.forward = {1 << 20, 1 << 19, Bytes{1 << 16}},
                          .backward = {5 << 19, 5 << 18, Bytes{1 << 17}},
                          .convention = "an FMA counts as two"};
  record.metrics = std::move(metrics);
  record.machine.fingerprint = "0123456789abcdef";
  record.machine.cpu_model = "A processor";
  record.machine.logical_cores = 2;
  record.machine.load_average = 0.5;
  record.machine.caches = {{1, "Data", Bytes{32 << 10}}, {2, "Unified", Bytes{1 << 20}}};
  record.machine.memory_total = Bytes{int64_t{16} << 30};
  record.build.git_commit = "0123abc";
  record.command = "ridgeline " + study;
  return record;
}

inline std::vector<Record> seed_records() {
  const auto attention = [](int length, const char* dtype) {
    return Json{{"batch_size", 8}, {"heads", 1},      {"seq_len", length},
                {"d_model", 64},   {"causal", false}, {"dtype", dtype}};
  };
  const Json model = {{"model_size", "small"},  {"context_length", 128}, {"batch_size", 4},
                      {"precision", "fp32"},    {"d_model", 768},        {"d_ff", 3072},
                      {"layers", 12},           {"heads", 12},           {"vocabulary", 10000},
                      {"num_params", 128625408}};
  const Json at_peak = {
      {"parameters_bytes", 1000}, {"gradients_bytes", 1000}, {"optimizer_state_bytes", 10},
      {"activations_bytes", 500}, {"data_bytes", 5},         {"gaps_bytes", 1}};
  const auto step = [&](double mfu) {
    return Json{{"predicted_peak_bytes", 3000},
                {"at_peak", at_peak},
                {"peak_bytes", 3000},
                {"process_peak_growth_bytes", 4000},
                {"compile_seconds", 0.5},
                {"launches", 52},
                {"eager_launches", 155},
                {"tokens_per_s", 4e4},
                {"model_flops", 4e9},
                {"mfu", mfu},
                {"loss", 2.9}};
  };
  const auto steps = [&](double mfu) {
    return Json{{"forward", step(mfu)},         {"fwd_bwd", step(mfu)},
                {"full_step", step(mfu)},       {"model_flops_are", "2 N per token"},
                {"mfu_is", "of the peak"},      {"launches_are", "kernels per step"},
                {"seconds_are", "of compiling"}};
  };
  const Json utilization = {{"source", "NVML GPM"},
                            {"sm_active", 0.2},
                            {"tensor_active", 0.1},
                            {"dram_bytes_per_s", 1e12},
                            {"passed_over", {"CUPTI PM sampling: no"}}};
  const Json rates = {{"gflops_per_s", 10.5},   {"gb_per_s", 2.5},
                      {"queries_per_s", 1e6},   {"host_us", 5.5},
                      {"peak_share", 0.1},      {"arithmetic_intensity", 2.6},
                      {"sm_utilization", 0.01}, {"ceiling_share", 0.2},
                      {"utilization", utilization}};
  const std::vector<std::string> phases = {"forward", "backward"};
  std::vector<Record> all;
  for (const int length : {256, 512, 1024, 2048})
    for (const char* implementation : {"naive", "flash", "compiled"})
      all.push_back(seed_record("attention", implementation, attention(length, "fp32"), phases,
                                Json::object()));
  all[1].verification = {
      .checked = true, .what = "whole tensors", .tensors = {{"output", 1e-7, 1e-5}}};
  all[2].metrics = Json{{"compile_seconds", 0.4}, {"ran_eagerly_because", "no compiler"}};
  all[3].status = Status::oom;
  all[3].error = "'scores' needs 2.00 GiB";
  all[3].series.clear();
  all[4].status = Status::wrong;
  all[5].metrics = Json{{"peer", {{"ran", "cudnn"}, {"versions", {{"torch", "2.1"}}}}}};
  all.push_back(seed_record("kernel", "flash",
                            {{"batch_size", 4},
                             {"heads", 8},
                             {"seq_len", 1024},
                             {"head_dim", 64},
                             {"causal", true},
                             {"dtype", "bf16"}},
                            {"forward", "forward_host", "backward", "backward_host"},
                            {{"forward", rates}, {"backward", rates}, {"conventions", "words"}}));
  for (const char* op : {"gemm", "gemv"})
    all.push_back(seed_record("gemm", "library",
                              {{"op", op}, {"m", 64}, {"n", 64}, {"k", 64}, {"dtype", "fp32"}},
                              {"forward"}, {{"calls_per_sample", 1}, {"forward", rates}}));
  for (const char* mode : {"vanilla", "compiled"}) {
    all.push_back(
        seed_record("model", mode, model, {"forward", "fwd_bwd", "full_step"}, steps(0.1)));
    all.push_back(seed_record("memory", mode, model, {},
                              {{"at_peak", at_peak},
                               {"worst_moment", "matmul of backward"},
                               {"saved_for_backward_bytes", 100}}));
  }
  const Json fold = {{"key", "matmul"},      {"phase", "forward"},       {"category", "gemm"},
                     {"scope", "layers.*"},  {"kernels", 1},             {"invocations", 3},
                     {"total_ms", 1.5},      {"mean_us", 500.0},         {"share", 1.0},
                     {"flops_per_s", 1e9},   {"bytes_per_s", 1e8},       {"predicted_us", 400.0},
                     {"roof_share", 0.8},    {"prediction_error", 0.25}, {"imbalance", 0.1}};
  const Json folds = Json::array({fold, fold});
  all.push_back(
      seed_record("profile", "vanilla", model, {},
                  {{"source", "CUPTI 13.0"},
                   {"traced_step_ms", 2.0},
                   {"untraced_step_ms", 1.9},
                   {"tracing_cost", 0.05},
                   {"utilization", utilization},
                   {"cpu_events",
                    {{"task_clock_ns", 1e6},
                     {"page_faults", 3.0},
                     {"context_switches", 2.0},
                     {"forced_switches", 1.0},
                     {"unsupported", {{"cycles", "no counter"}, {"instructions", "no counter"}}}}},
                   {"unmapped", 1},
                   {"launch_verdict", "launch-bound"},
                   {"untraced_device_ms", 1.7},
                   {"device_time", {{"span_ms", 2.0}, {"busy_ms", 1.6}, {"waited_for_host_ms", 0.1}}},
                   {"matmul_share", {{"forward", 0.5}, {"step", 0.6}}},
                   {"softmax_against_matmul",
                    {{"softmax_us", 1.0}, {"matmul_us", 2.0}, {"softmax_flops", 1.0}, {"matmul_flops", 9.0}}},
                   {"folds",
                    {{"phase", folds},
                     {"category", folds},
                     {"phase_category", folds},
                     {"scope", folds},
                     {"kernel", folds}}}}));
  all.push_back(seed_record("roofline", "fma", {{"ceiling", "compute"}, {"dtype", "fp32"}},
                            {"forward"},
                            {{"gflops_per_s", 100.0},
                             {"burst_gflops_per_s", 120.0},
                             {"spec_gflops_per_s", 150.0},
                             {"median_gflops_per_s", 99.0}}));
  for (const char* level : {"L2", "memory"})
    all.push_back(
        seed_record("roofline", "copy", {{"ceiling", "memory"}, {"level", level}}, {"forward"},
                    {{"gb_per_s", 10.0}, {"capacity_bytes", level[0] == 'L' ? 1 << 20 : 0}}));
  for (const char* op : {"sum", "rms_norm"})
    all.push_back(seed_record("precision", "bf16/bf16",
                              {{"part", op[0] == 's' ? "accumulate" : "norm"},
                               {"op", op},
                               {"value_dtype", "bf16"},
                               {"accumulator_dtype", "bf16"},
                               {"length", 64},
                               {"magnitude", 1}},
                              {},
                              {{"overflowed", false},
                               {"result", 31.5},
                               {"exact", 31.7},
                               {"total_error", -0.006},
                               {"representation_error", 1e-4},
                               {"accumulation_error", -0.0061},
                               {"stalled_at", 60}}));
  all.push_back(seed_record(
      "precision", "autocast fp16", {{"part", "flow"}, {"model", "toy"}, {"autocast", "fp16"}}, {},
      {{"stages", {{{"stage", "loss"}, {"tensor", "loss"}, {"dtype", "fp32"}}}}}));
  all.push_back(seed_record(
      "frontier", "flash",
      {{"batch_size", 1}, {"heads", 1}, {"d_model", 8}, {"causal", false}, {"dtype", "fp32"}}, {},
      {{"predicted_seq_len", 3968},
       {"seq_len", 3968},
       {"first_oom_seq_len", 4096},
       {"limited_by", "memory"},
       {"probes",
        {{{"seq_len", 3968},
          {"outcome", "fits"},
          {"method", "run"},
          {"seconds", 0.1},
          {"peak_bytes", 1031680},
          {"predicted_peak_bytes", 1031680}}}}}));
  return all;
}

// The lines of these records, and the words in them.
inline std::string lines_of(const std::vector<Record>& records) {
  std::string lines;
  for (const Record& record : records) lines += to_line(record);
  return lines;
}

inline std::vector<std::string> record_words() {
  return {"\"study\":\"attention\",",
          "\"study\":\"model\",",
          "\"study\":\"roofline\",",
          "\"status\":\"oom\",",
          "\"status\":\"wrong\",",
          "\"statistics\":{",
          "\"samples_ms\":[",
          "\"metrics\":{",
          "\"workload\":{",
          "\"device\":\"cuda\",",
          "\"gpu\":{",
          "\n",
          "\"schema\":1,",
          "{",
          "}"};
}

}  // namespace ridgeline
