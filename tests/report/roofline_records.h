// Records of ceilings and of work below them.
#pragma once

#include "measure/record.h"

namespace ridgeline::roofline_testing {

inline Record on_machine(const std::string& fingerprint) {
  Record record;
  record.device = "cpu";
  record.machine.fingerprint = fingerprint;
  record.machine.cpu_model = "A processor";
  return record;
}

inline Record compute(const char* probe, const char* dtype, double gflops) {
  Record record = on_machine("one");
  record.study = "roofline";
  record.implementation = probe;
  record.workload = {{"ceiling", "compute"}, {"dtype", dtype}};
  record.metrics = Json{{"gflops_per_s", gflops}};
  return record;
}

inline Record memory(const char* level, double gigabytes, int64_t capacity) {
  Record record = on_machine("one");
  record.study = "roofline";
  record.implementation = "copy";
  record.workload = {{"ceiling", "memory"}, {"level", level}};
  record.metrics = Json{{"gb_per_s", gigabytes}};
  if (capacity > 0) (*record.metrics)["capacity_bytes"] = capacity;
  return record;
}

// 100 GFLOP/s, 10 GB/s from memory, 50 GB/s from a cache of 1 MB.
inline std::vector<Record> ceilings() {
  return {memory("memory", 10, 0), memory("L2", 50, 1'000'000), compute("library", "fp32", 90),
          compute("fma", "fp32", 100)};
}

inline Record op(double flops, int64_t bytes, double seconds, const char* study = "gemm",
                 const char* implementation = "library") {
  Record record = on_machine("one");
  record.study = study;
  record.implementation = implementation;
  record.workload = {{"m", 64}, {"dtype", "fp32"}};
  const auto count = static_cast<int64_t>(flops);
  record.cost =
      CostFacts{.forward = {count, count / 2, Bytes{bytes}}, .backward = {}, .convention = ""};
  Series series;
  series.name = "forward";
  series.statistics.median_ms = 1e3 * seconds;
  record.series = {series};
  return record;
}

// Attention in fp32 on an H200, by three fp16 products of the tensor cores.
inline Record fp32_attention(double tflops_per_s) {
  Record record = op(1e12, 1'000'000'000, 1 / tflops_per_s, "attention", "flash");
  record.device = "cuda";
  record.metrics =
      Json{{"arithmetic",
            {{"forward", Json::array({{{"dtype", "fp16"}, {"products", 3}, {"macs", 500}}})}}}};
  return record;
}

inline std::vector<Record> gpu_ceilings() {
  std::vector<Record> records = {memory("memory", 4000, 0), compute("library 4096", "fp32", 51e3),
                                 compute("library 8192", "fp16", 690e3)};
  for (Record& record : records) record.device = "cuda";
  return records;
}

}  // namespace ridgeline::roofline_testing
