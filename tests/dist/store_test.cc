// The rendezvous: ranks that agree find each other, those that do not are named, and whatever else
// speaks to the port is dropped without a hang.
#include "dist/store.h"

#include <gtest/gtest.h>

#include <future>
#include <thread>

#include "base/clock.h"
#include "base/error.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

RankFacts facts_of(int rank, int size) {
  RankFacts facts = rank_facts(rank, size);
  facts.run_id = "run";
  facts.build = "1.0 abc";
  facts.configuration = "comm --dtype fp32";
  facts.process = 100 + rank;
  return facts;
}

std::unique_ptr<StoreServer> served(int size, const StoreOptions& options = {}) {
  return std::make_unique<StoreServer>(facts_of(0, size), listen_on("127.0.0.1", 0), options);
}

std::string error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::environment);
    return error.message();
  }
  return "no error";
}

std::unique_ptr<StoreClient> joined(const RankFacts& facts, const StoreServer& server) {
  return std::make_unique<StoreClient>(facts, "127.0.0.1", server.port(), 10);
}

TEST(Store, GivesValuesToWhoeverWaitsForThem) {
  const auto server = served(2);
  const auto zero = joined(facts_of(0, 2), *server), one = joined(facts_of(1, 2), *server);
  auto waits = std::async(std::launch::async, [&] { return one->get("address", 10); });
  zero->set("address", std::string("a\0b", 3));
  EXPECT_EQ(waits.get(), std::string("a\0b", 3));
  EXPECT_EQ(zero->get("address", 10), std::string("a\0b", 3));
}

TEST(Store, LetsRanksPassABarrierTogetherAndAgain) {
  const auto server = served(2);
  const auto zero = joined(facts_of(0, 2), *server), one = joined(facts_of(1, 2), *server);
  for (int time = 0; time < 3; ++time) {
    auto other = std::async(std::launch::async, [&] { one->barrier("step", 10); });
    zero->barrier("step", 10);
    other.get();
  }
}

TEST(Store, NamesRanksThatDoNotCome) {
  const auto server = served(4);
  const auto zero = joined(facts_of(0, 4), *server), two = joined(facts_of(2, 4), *server);
  auto other =
      std::async(std::launch::async, [&] { return error_of([&] { two->barrier("join", 0.4); }); });
  const std::string text = error_of([&] { zero->barrier("join", 0.4); });
  EXPECT_EQ(text, "2 of 4 ranks came to 'join' within 0.4 s; ranks 1, 3 are missing");
  EXPECT_EQ(other.get(), text);
}

TEST(Store, NamesRanksOfAnotherBuildOrConfigurationToAll) {
  for (const bool is_build : {true, false}) {
    const auto server = served(3);
    const auto zero = joined(facts_of(0, 3), *server);
    RankFacts differs = facts_of(2, 3);
    (is_build ? differs.build : differs.configuration) = "another";
    const std::string text = error_of([&] { joined(differs, *server); });
    EXPECT_HAS(text, "rank 2 (host ");
    EXPECT_HAS(text, "'another'");
    EXPECT_HAS(text, "rank 0 (host ");
    EXPECT_HAS(text, is_build ? "has build" : "has the configuration");
    EXPECT_EQ(error_of([&] { zero->barrier("join", 5); }), text);
  }
}

TEST(Store, NamesWrongRanks) {
  const auto server = served(2);
  const auto one = joined(facts_of(1, 2), *server);
  RankFacts second = facts_of(1, 2);
  second.process = 999;
  const std::string text = error_of([&] { joined(second, *server); });
  EXPECT_HAS(text, "two processes say that they are rank 1");
  EXPECT_HAS(text, "process 101");
  EXPECT_HAS(text, "process 999");
  const auto next = served(2);
  EXPECT_HAS(error_of([&] { joined(facts_of(5, 2), *next); }), "came to a world of 2");
  const auto last = served(2);
  EXPECT_HAS(error_of([&] { joined(facts_of(1, 3), *last); }), "a world of size '3'");
}

// 2^32 is no rank 0.
TEST(Store, ARankThatNoIntegerHoldsIsWrong) {
  const auto server = served(2);
  const FileDescriptor socket = connect_to("127.0.0.1", server->port(), monotonic_s() + 5);
  const RankFacts facts = facts_of(0, 2);
  const Json hello = {{"rank", int64_t{1} << 32},
                      {"size", 2},
                      {"run_id", facts.run_id},
                      {"build", facts.build},
                      {"configuration", facts.configuration},
                      {"process", 7}};
  ASSERT_TRUE(send_all(socket.get(),
                       std::string(kStoreMagic) + framed(store_message::kHello, hello.dump()),
                       monotonic_s() + 5));
  const Message answer = receive_message(socket.get(), monotonic_s() + 5);
  EXPECT_EQ(answer.type, store_message::kRefused);
  EXPECT_HAS(answer.rest, "came to a world of 2");
}

TEST(Store, RefusesRanksOfAnotherRunAndGoesOn) {
  const auto server = served(1);
  RankFacts other = facts_of(0, 1);
  other.run_id = "yesterday";
  EXPECT_HAS(error_of([&] { joined(other, *server); }), "two runs have the same port");
  joined(facts_of(0, 1), *server)->barrier("join", 5);
}

TEST(Store, SaysThatItsPortIsInUse) {
  const Listener taken = listen_on("127.0.0.1", 0);
  for (const std::string& part : {std::to_string(taken.port), std::string("RIDGELINE_PORT")})
    EXPECT_ERROR(listen_on("127.0.0.1", taken.port), ErrorKind::environment, part);
}

// Sends until the other side has had enough; how many bytes that took.
int64_t sent_until_dropped(int port, const std::string& chunk, int64_t most) {
  const FileDescriptor socket = connect_to("127.0.0.1", port, monotonic_s() + 5);
  int64_t sent = 0;
  while (sent < most && send_all(socket.get(), chunk, monotonic_s() + 5))
    sent += static_cast<int64_t>(chunk.size());
  return sent;
}

TEST(Store, DropsAGigabyteOfGarbageAfterItsFirstBytes) {
  const auto server = served(2);
  constexpr int64_t kGigabyte = int64_t{1} << 30;
  EXPECT_LT(sent_until_dropped(server->port(), std::string(1 << 20, 'x'), kGigabyte), kGigabyte);
  // With the right beginning, and a length that nobody sends.
  EXPECT_LT(sent_until_dropped(server->port(),
                               std::string(kStoreMagic) + std::string(1 << 20, '\xff'), kGigabyte),
            kGigabyte);
  const auto zero = joined(facts_of(0, 2), *server);
  const std::string text = error_of([&] { zero->barrier("join", 0.3); });
  EXPECT_HAS(text, "rank 1 is missing; 2 connections spoke something else and were dropped");
}

TEST(Store, ServesOthersBesideASilentClientAndDropsIt) {
  const auto server = served(1, {.hello_s = 0.3});
  const FileDescriptor silent = connect_to("127.0.0.1", server->port(), monotonic_s() + 5);
  const auto zero = joined(facts_of(0, 1), *server);
  zero->barrier("join", 5);
  char byte = 0;
  const double began = monotonic_s();
  EXPECT_FALSE(receive_all(silent.get(), &byte, 1, began + 5));
  EXPECT_LT(monotonic_s(), began + 4);
}

TEST(Store, ClientsOfSomethingElseSaySo) {
  const Listener something_else = listen_on("127.0.0.1", 0);
  const std::string text =
      error_of([&] { StoreClient(facts_of(1, 2), "127.0.0.1", something_else.port, 0.3); });
  EXPECT_HAS(text, "is no rank 0 of this program");
  const int closed = [] { return listen_on("127.0.0.1", 0).port; }();
  EXPECT_HAS(error_of([&] { StoreClient(facts_of(1, 2), "127.0.0.1", closed, 0.3); }),
             "rank 0 is not reached at 127.0.0.1");
}

TEST(Store, TellsAllWhenARankDiesOrFallsSilent) {
  for (const bool dies : {true, false}) {
    const auto server = served(2, {.heartbeat_s = dies ? 30.0 : 0.5});
    const auto zero = joined(facts_of(0, 2), *server), one = joined(facts_of(1, 2), *server);
    FileDescriptor watch = say_hello(facts_of(1, 2), "watch", "127.0.0.1", server->port(), 5);
    if (dies) watch = FileDescriptor();
    const std::string text = error_of([&] { zero->get("never", 10); });
    EXPECT_HAS(text, "rank 1 (host ");
    EXPECT_HAS(text, dies ? "has died" : "has given no sign of life for 0.5 s");
  }
}

// A rank's connections end one after the other, and its watch need not be the last.
TEST(Store, ARankThatHasLeftHasNotDiedWhicheverConnectionEndsFirst) {
  const auto server = served(2);
  const auto zero = joined(facts_of(0, 2), *server);
  auto one = joined(facts_of(1, 2), *server);
  const auto pass_two_rounds = [&] {
    for (int round = 0; round < 2; ++round) zero->set("round", "passed");
  };
  FileDescriptor watch = say_hello(facts_of(1, 2), "watch", "127.0.0.1", server->port(), 5);
  send_all(watch.get(), framed(store_message::kLeave, ""), monotonic_s() + 5);
  watch = FileDescriptor();
  pass_two_rounds();
  one.reset();
  EXPECT_EQ(error_of(pass_two_rounds), "no error");
}

}  // namespace
}  // namespace ridgeline
