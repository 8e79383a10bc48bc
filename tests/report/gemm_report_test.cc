#include "report/gemm_report.h"

#include <gtest/gtest.h>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

Record product(const std::string& implementation, const std::vector<double>& samples_ms) {
  Record record;
  record.study = "gemm";
  record.implementation = implementation;
  record.device = "cpu";
  record.workload = {{"op", "gemm"}, {"m", 64}, {"n", 64}, {"k", 64}, {"dtype", "fp32"}};
  record.cost = CostFacts{.forward = {.flops = 2 << 18, .macs = 1 << 18, .bytes = Bytes{49152}},
                          .backward = {},
                          .convention = "an FMA counts as two"};
  record.series = {series_of("forward", samples_ms)};
  return record;
}

std::string notes_of(const std::vector<Record>& records) {
  std::string text;
  for (const std::string& note : gemm_notes(records)) text += note + "\n";
  return text;
}

TEST(GemmReport, ARatioOfFewSamplesIsCalledRough) {
  const std::vector<double> many(9, 1.0);
  const std::string rough = notes_of({product("naive", {1, 4, 9}), product("library", many)});
  EXPECT_NE(rough.find("gemm fp32 cpu 64x64x64: naive takes 4 times as long as the library\n"),
            std::string::npos)
      << rough;
  EXPECT_NE(rough.find("Noisy: in 1 row a median is not known to within 5 %"), std::string::npos)
      << rough;
  const std::string known = notes_of({product("naive", many), product("library", many)});
  EXPECT_EQ(known.find("Noisy"), std::string::npos) << known;
}

}  // namespace
}  // namespace ridgeline
