#include "base/units.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/error.h"
#include "base/float16.h"
#include "base/random.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

TEST(Units, SizesAreReadAsPeopleWriteThem) {
  EXPECT_EQ(parse_bytes("1024").count, 1024);
  EXPECT_EQ(parse_bytes("4GiB").count, int64_t{4} << 30);
  EXPECT_EQ(parse_bytes("1.5 mib").count, 3 << 19);
  EXPECT_EQ(parse_bytes("8GB").count, 8'000'000'000);
}

TEST(Units, NonsenseSizesAreUsageErrorsThatNameTheText) {
  for (const char* text : {"", "GiB", "-1", "4 elephants", "nan", "1e99", "0x10", "4GiB x"}) {
    EXPECT_ERROR(parse_bytes(text), ErrorKind::usage, text);
  }
}

TEST(Units, SizesPrintWithThreeFigures) {
  EXPECT_EQ(to_string(Bytes{512}), "512 B");
  EXPECT_EQ(to_string(Bytes{20 << 20}), "20.0 MiB");
  EXPECT_EQ(to_string(Bytes{int64_t{8} << 30}), "8.00 GiB");
  EXPECT_EQ(to_string(Bytes{1023 * 1024 + 1000}), "1.00 MiB");
}

TEST(Units, DurationsReadAndPrint) {
  EXPECT_DOUBLE_EQ(parse_seconds("500ms"), 0.5);
  EXPECT_DOUBLE_EQ(parse_seconds("1.5min"), 90);
  EXPECT_EQ(format_seconds(0.00123), "1.23 ms");
  EXPECT_EQ(format_seconds(125), "2 min 5 s");
  EXPECT_EQ(format_seconds(0), "0 s");
  EXPECT_DOUBLE_EQ(parse_seconds("5us"), 5e-6);
}

TEST(Units, BandwidthsAreBytesUnlessTheySayBits) {
  EXPECT_DOUBLE_EQ(parse_bandwidth("450GB/s"), 450e9);
  EXPECT_DOUBLE_EQ(parse_bandwidth("400 Gbit/s"), 50e9);
  for (const char* text : {"450", "450GB", "0GB/s", "fast", "-1GB/s"})
    EXPECT_THROW(parse_bandwidth(text), Error) << text;
  EXPECT_EQ(format_bandwidth(450e9), "450 GB/s");
  EXPECT_EQ(format_decimal_bytes(3'517'578'215'424.0), "3.52 TB");
}

// Every 16-bit pattern survives the way to fp32 and back; NaN stays NaN.
TEST(Float16, EveryPatternRoundTrips) {
  for (uint32_t pattern = 0; pattern < 65536; ++pattern) {
    const auto bits = static_cast<uint16_t>(pattern);
    if (std::isnan(f16_to_float(bits)))
      EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(f16_to_float(bits)))));
    else
      EXPECT_EQ(float_to_f16(f16_to_float(bits)), bits);
    if (std::isnan(bf16_to_float(bits)))
      EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(bf16_to_float(bits)))));
    else
      EXPECT_EQ(float_to_bf16(bf16_to_float(bits)), bits);
  }
}

TEST(Float16, RoundsToTheNearestNeighbour) {
  NormalRandom random(1, "rounding");
  for (int i = 0; i < 100000; ++i) {
    const auto value = static_cast<float>(random.next() * std::exp2(20 * random.uniform() - 15));
    const uint16_t bits = float_to_f16(value);
    const float error = std::abs(f16_to_float(bits) - value);
    for (int step : {-1, 1}) {
      const float neighbour = f16_to_float(static_cast<uint16_t>(bits + step));
      if (std::isnan(neighbour)) continue;  // there is nothing below zero's pattern
      EXPECT_LE(error, std::abs(neighbour - value));
    }
  }
}

TEST(Random, IsNormalAndReproducible) {
  NormalRandom random(42, "q"), again(42, "q"), other(42, "k");
  double sum = 0, squares = 0;
  bool differs = false;
  for (int i = 0; i < 100000; ++i) {
    const double value = random.next();
    EXPECT_EQ(value, again.next());
    differs = differs || value != other.next();
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / 100000, 0, 0.015);
  EXPECT_NEAR(squares / 100000, 1, 0.02);
  EXPECT_TRUE(differs);
}

// Counts from a file may be anything.
TEST(Bytes, SumsBeyond64BitsStayTheLargest) {
  const Bytes most{INT64_MAX}, least{INT64_MIN};
  EXPECT_EQ(most + Bytes{1}, most);
  EXPECT_EQ(least + least, least);
  EXPECT_EQ(least - Bytes{1}, least);
  EXPECT_EQ(most - least, most);
  Bytes sum = most;
  sum += most;
  EXPECT_EQ(sum, most);
  sum -= Bytes{1};
  EXPECT_EQ(sum.count, INT64_MAX - 1);
}

TEST(BoundedInteger, TakesAnyNumber) {
  EXPECT_EQ(bounded_integer(1.9), 1);
  EXPECT_EQ(bounded_integer(1e300), INT64_MAX);
  EXPECT_EQ(bounded_integer(-1e300), INT64_MIN);
  EXPECT_EQ(bounded_integer(std::numeric_limits<double>::quiet_NaN()), 0);
}

}  // namespace
}  // namespace ridgeline
