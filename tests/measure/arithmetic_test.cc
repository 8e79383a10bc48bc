// The path of an implementation's products, read from its record, and the ceiling of that path.
#include "measure/arithmetic.h"

#include <gtest/gtest.h>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

Json part(const char* dtype, int products, int64_t macs) {
  return {{"dtype", dtype}, {"products", products}, {"macs", macs}};
}

// A record of flash in fp32 on a GPU.
Record by_three_products() {
  Record record = attention_record({.implementation = "flash"});
  record.device = "cuda";
  record.metrics = Json{{"arithmetic",
                         {{"forward", Json::array({part("fp16", 3, 1000)})},
                          {"backward", Json::array({part("fp16", 3, 2500)})}}}};
  return record;
}

double ceiling(const Arithmetic& arithmetic) {
  return arithmetic
      .ceiling([](std::string_view dtype) -> std::optional<double> {
        if (dtype == "fp32") return 50;
        if (dtype == "fp16") return 600;
        return std::nullopt;
      })
      .value_or(0);
}

TEST(Arithmetic, ThreeNarrowProductsHaveAThirdOfTheirCeiling) {
  const Arithmetic arithmetic = arithmetic_of(by_three_products(), "forward");
  EXPECT_TRUE(arithmetic.recorded);
  EXPECT_EQ(arithmetic.name(), "fp32 by 3 fp16 products");
  EXPECT_DOUBLE_EQ(ceiling(arithmetic), 200);
}

TEST(Arithmetic, ItsOwnDtypeNeedsNoWords) {
  Record record = by_three_products();
  (*record.metrics)["arithmetic"]["forward"] = Json::array({part("fp32", 1, 1000)});
  const Arithmetic arithmetic = arithmetic_of(record, "forward");
  EXPECT_EQ(arithmetic.name(), "fp32");
  EXPECT_DOUBLE_EQ(ceiling(arithmetic), 50);
  record.workload["dtype"] = "tf32";
  (*record.metrics)["arithmetic"]["forward"] = Json::array({part("fp16", 1, 1000)});
  EXPECT_EQ(arithmetic_of(record, "forward").name(), "tf32 by fp16 products");
}

// A compiled model in fp32 uses fp32 products of the library, and three fp16 products in attention.
TEST(Arithmetic, PartsTakeTheirTimeOneAfterTheOther) {
  Record record = by_three_products();
  record.study = "model";
  record.workload = {{"precision", "fp32"}};
  (*record.metrics)["arithmetic"] = {
      {"forward", Json::array({part("fp32", 1, 300), part("fp16", 3, 100)})},
      {"backward", Json::array({part("fp32", 1, 600), part("fp16", 3, 200)})}};
  for (const char* series : {"forward", "fwd_bwd", "full_step"}) {
    const Arithmetic arithmetic = arithmetic_of(record, series);
    EXPECT_EQ(arithmetic.name(), "fp32, in part by 3 fp16 products");
    EXPECT_NEAR(ceiling(arithmetic), 1 / (0.75 / 50 + 0.25 / 200), 1e-9) << series;
  }
}

TEST(Arithmetic, OlderRecordsFallBackToTheirDtypeAndSaySo) {
  Record record = by_three_products();
  for (const Json& said : {Json(), Json(7), Json{{"forward", 7}}, Json{{"backward", Json::array()}},
                           Json{{"forward", Json::array({part("fp16", 0, 1000)})}},
                           Json{{"forward", Json::array({part("fp16", 3, -1)})}},
                           Json{{"forward", Json::array({7})}}, Json{{"forward", Json::array()}}}) {
    (*record.metrics)["arithmetic"] = said;
    const Arithmetic arithmetic = arithmetic_of(record, "forward");
    EXPECT_FALSE(arithmetic.recorded) << said.dump();
    EXPECT_EQ(arithmetic.name(), "fp32");
    EXPECT_DOUBLE_EQ(ceiling(arithmetic), 50);
    EXPECT_TRUE(is_ambiguous(record, arithmetic)) << "three products may have run";
  }
  record.metrics.reset();
  EXPECT_TRUE(is_ambiguous(record, arithmetic_of(record, "forward")));
  record.workload["dtype"] = "bf16";
  EXPECT_FALSE(is_ambiguous(record, arithmetic_of(record, "forward")));
  record.workload["dtype"] = "fp32";
  record.device = "cpu";
  EXPECT_FALSE(is_ambiguous(record, arithmetic_of(record, "forward")));
}

TEST(Arithmetic, ACeilingThatIsNotKnownIsNone) {
  Record record = by_three_products();
  record.workload["dtype"] = "fp8";
  record.metrics.reset();
  EXPECT_EQ(ceiling(arithmetic_of(record, "forward")), 0);
}

}  // namespace
}  // namespace ridgeline
