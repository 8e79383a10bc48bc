#include "dist/collective.h"

#include <gtest/gtest.h>

#include "base/error.h"

namespace ridgeline {
namespace {

TEST(Shards, CoverABufferOnceAndAreEqualWhereTheyCanBe) {
  for (const int64_t count : {0, 1, 5, 6, 7, 1000003})
    for (const int ranks : {1, 2, 3, 4, 6, 7}) {
      int64_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        const Shard shard = shard_of(count, rank, ranks);
        EXPECT_EQ(shard.begin, next);
        EXPECT_LE(shard.count, (count + ranks - 1) / ranks);
        next += shard.count;
      }
      EXPECT_EQ(next, count);
    }
  EXPECT_EQ(shard_of(12, 3, 4).begin, 9);
}

TEST(BusFactors, AreThoseOfNcclTests) {
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_reduce, 4), 1.5);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::reduce_scatter, 4), 0.75);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::all_gather, 2), 0.5);
  EXPECT_DOUBLE_EQ(bus_factor(CollectiveKind::broadcast, 6), 1);
}

TEST(Collectives, AreNamedAsUsersWriteThem) {
  for (const CollectiveInfo& row : collective_kinds())
    EXPECT_EQ(parse_collective(row.name), row.kind);
  EXPECT_THROW(parse_collective("allreduce"), Error);
  EXPECT_EQ(describe({.kind = CollectiveKind::all_reduce, .count = 1 << 20, .name = "bucket 7"}),
            "all-reduce of 4.00 MiB in fp32 (bucket 7)");
}

}  // namespace
}  // namespace ridgeline
