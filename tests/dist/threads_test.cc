// Collectives of threads: the bits of one process that adds in the order of ranks, whatever the
// sizes; what was started runs in order and after its events; a rank that leaves ends the others.
#include "dist/threads_backend.h"

#include <gtest/gtest.h>

#include <cstring>
#include <thread>

#include "base/error.h"
#include "base/float16.h"
#include "dist/host_communicator.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

using Buffers = std::vector<std::vector<char>>;

void on_ranks(int ranks, const std::function<void(Communicator&)>& body) {
  ThreadGroup group(ranks, 20);
  std::vector<std::unique_ptr<Communicator>> all;
  for (int rank = 0; rank < ranks; ++rank) all.push_back(group.communicator(rank));
  std::vector<std::thread> threads;
  for (auto& each : all) threads.emplace_back([&] { body(*each); });
  for (std::thread& thread : threads) thread.join();
}

float value_of(int rank, int64_t i) {
  return static_cast<float>((i * 31 + rank * 17) % 101) * 0.37f + static_cast<float>(rank);
}

void put(DType dtype, std::vector<char>& buffer, int64_t i, float value) {
  if (dtype == DType::f32) {
    std::memcpy(buffer.data() + 4 * i, &value, 4);
    return;
  }
  const uint16_t bits = dtype == DType::bf16 ? float_to_bf16(value) : float_to_f16(value);
  std::memcpy(buffer.data() + 2 * i, &bits, 2);
}

float get(DType dtype, const char* buffer, int64_t i) {
  if (dtype == DType::f32) {
    float value = 0;
    std::memcpy(&value, buffer + 4 * i, 4);
    return value;
  }
  uint16_t bits = 0;
  std::memcpy(&bits, buffer + 2 * i, 2);
  return dtype == DType::bf16 ? bf16_to_float(bits) : f16_to_float(bits);
}

Buffers filled(DType dtype, int ranks, int64_t count) {
  Buffers buffers(static_cast<size_t>(ranks),
                  std::vector<char>(static_cast<size_t>(count * info(dtype).size)));
  for (int rank = 0; rank < ranks; ++rank)
    for (int64_t i = 0; i < count; ++i)
      put(dtype, buffers[static_cast<size_t>(rank)], i, value_of(rank, i));
  return buffers;
}

// One process that adds in the order of ranks in fp32 and rounds once.
std::vector<char> summed(DType dtype, const Buffers& buffers, int64_t count) {
  std::vector<char> out(buffers[0].size());
  for (int64_t i = 0; i < count; ++i) {
    float sum = get(dtype, buffers[0].data(), i);
    for (size_t rank = 1; rank < buffers.size(); ++rank) sum += get(dtype, buffers[rank].data(), i);
    put(dtype, out, i, sum);
  }
  return out;
}

struct ThreadsCase {
  int ranks;
  int64_t count;
  DType dtype;
};
class ThreadsCollectives : public ::testing::TestWithParam<ThreadsCase> {};

TEST_P(ThreadsCollectives, HaveTheBitsOfOneProcessThatAddsInTheOrderOfRanks) {
  const auto [ranks, count, dtype] = GetParam();
  const int size = info(dtype).size;
  const Buffers inputs = filled(dtype, ranks, count);
  const std::vector<char> sum = summed(dtype, inputs, count);
  Buffers apart(inputs.size(), std::vector<char>(sum.size())),
      in_place = inputs, scattered = inputs, gathered = inputs, sent = inputs;
  on_ranks(ranks, [&](Communicator& communicator) {
    const auto rank = static_cast<size_t>(communicator.rank());
    Collective what{.kind = CollectiveKind::all_reduce, .dtype = dtype, .count = count};
    what.in = inputs[rank].data(), what.out = apart[rank].data();
    communicator.run(what);
    what.in = what.out = in_place[rank].data();
    communicator.run(what);
    const Shard mine = shard_of(count, communicator.rank(), ranks);
    what.kind = CollectiveKind::reduce_scatter;
    what.in = scattered[rank].data(), what.out = scattered[rank].data() + mine.begin * size;
    communicator.run(what);
    what.kind = CollectiveKind::all_gather;
    what.in = gathered[rank].data() + mine.begin * size, what.out = gathered[rank].data();
    communicator.run(what);
    what.kind = CollectiveKind::broadcast;
    what.in = what.out = sent[rank].data(), what.root = ranks - 1;
    communicator.run(what);
  });
  for (int rank = 0; rank < ranks; ++rank) {
    const auto at = static_cast<size_t>(rank);
    EXPECT_EQ(apart[at], sum) << "rank " << rank;
    EXPECT_EQ(in_place[at], sum) << "rank " << rank;
    EXPECT_EQ(sent[at], inputs.back()) << "rank " << rank;
    const Shard mine = shard_of(count, rank, ranks);
    for (int64_t i = mine.begin; i < mine.begin + mine.count; ++i)
      ASSERT_EQ(get(dtype, scattered[at].data(), i), get(dtype, sum.data(), i));
    for (int owner = 0; owner < ranks; ++owner) {
      const Shard theirs = shard_of(count, owner, ranks);
      for (int64_t i = theirs.begin; i < theirs.begin + theirs.count; ++i)
        ASSERT_EQ(get(dtype, gathered[at].data(), i),
                  get(dtype, inputs[static_cast<size_t>(owner)].data(), i));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    RanksSizesTypes, ThreadsCollectives,
    ::testing::Values(ThreadsCase{1, 100, DType::f32}, ThreadsCase{2, 4096, DType::f32},
                      ThreadsCase{3, 10007, DType::f32}, ThreadsCase{4, 3, DType::f32},
                      ThreadsCase{6, 100003, DType::f32}, ThreadsCase{6, 5, DType::bf16},
                      ThreadsCase{3, 10007, DType::bf16}, ThreadsCase{4, 4097, DType::f16}));

TEST(ThreadsCollectivesStarted, RunInOrderAndAfterTheirEvents) {
  on_ranks(2, [](Communicator& communicator) {
    std::vector<float> first(1000, 1), second(1000, 0);
    const auto ready = std::make_shared<HostEvent>();
    const EventRef reduced = communicator.start({.kind = CollectiveKind::all_reduce,
                                                 .count = 1000,
                                                 .in = first.data(),
                                                 .out = first.data()},
                                                {ready});
    const EventRef again = communicator.start({.kind = CollectiveKind::all_reduce,
                                               .count = 1000,
                                               .in = first.data(),
                                               .out = second.data()});
    EXPECT_FALSE(again->is_done());
    first.assign(1000, 3);  // nothing runs before its event
    ready->set();
    again->wait();
    EXPECT_TRUE(reduced->is_done());
    EXPECT_EQ(first[999], 6);
    EXPECT_EQ(second[999], 12);
  });
}

TEST(ThreadsCollectivesStarted, FailWithWhatTheirEventFailedWith) {
  on_ranks(2, [](Communicator& communicator) {
    const auto failed = std::make_shared<HostEvent>();
    failed->fail(std::make_exception_ptr(Error(ErrorKind::internal, "no gradient")));
    EXPECT_THROW(communicator.start({}, {failed})->wait(), Error);
    EXPECT_THROW(communicator.barrier(), Error);  // out of step for good
  });
}

TEST(ThreadsRanks, ThatLeaveAreNamedByThoseThatWait) {
  ThreadGroup group(2, 20);
  auto stays = group.communicator(0);
  auto leaves = group.communicator(1);
  std::thread other([&] { leaves.reset(); });
  EXPECT_ERROR(stays->barrier(), ErrorKind::environment, "rank 1 left while rank 0 was in barrier");
  other.join();
}

TEST(ThreadsRanks, ThatDoNotComeAreWaitedForUntilTheDeadline) {
  ThreadGroup group(3, 0.1);
  auto one = group.communicator(0);
  EXPECT_ERROR(one->barrier(), ErrorKind::environment, "1 of 3 ranks came to barrier within 0.1 s");
}

TEST(ThreadsRanks, InDifferentCollectivesAreNamed) {
  std::atomic<int> thrown = 0;
  on_ranks(2, [&](Communicator& communicator) {
    float value[8] = {};
    try {
      communicator.run({.kind = CollectiveKind::broadcast,
                        .count = 4 + communicator.rank(),
                        .in = value,
                        .out = value});
    } catch (const Error& error) {
      ++thrown;
      EXPECT_TRUE(error.message().find("broadcast of 16 B") != std::string::npos &&
                  error.message().find("broadcast of 20 B") != std::string::npos)
          << error.message();
    }
  });
  EXPECT_EQ(thrown, 2);
}

TEST(CheckedCollectives, AreRefusedWhereNoRankCouldRunThem) {
  ThreadGroup group(1);
  auto alone = group.communicator(0);
  int32_t whole[4] = {};
  EXPECT_THROW(alone->run({.kind = CollectiveKind::all_reduce,
                           .dtype = DType::i32,
                           .count = 4,
                           .in = whole,
                           .out = whole}),
               Error);
  EXPECT_THROW(alone->run({.kind = CollectiveKind::all_reduce, .count = 4}), Error);
  EXPECT_THROW(alone->run({.kind = CollectiveKind::broadcast, .count = 4, .out = whole, .root = 1}),
               Error);
}

}  // namespace
}  // namespace ridgeline
