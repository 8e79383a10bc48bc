#include <fmt/format.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/json.h"
#include "base/printable.h"
#include "dist/store.h"

namespace ridgeline {
namespace {

using namespace store_message;

constexpr double kAnswerS = 10;  // added to the time for which the request itself may wait
constexpr size_t kShownReason = 600;

}  // namespace

std::string RankFacts::label() const {
  return fmt::format("rank {} (host {}, process {})", rank, printable(host, 64), process);
}

RankFacts rank_facts(int rank, int size) {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return {.rank = rank,
          .size = size,
          .run_id = {},
          .build = {},
          .configuration = {},
          .host = host,
          .process = getpid()};
}

FileDescriptor say_hello(const RankFacts& mine, std::string_view role, const std::string& address,
                         int port, double deadline_s) {
  const double deadline = monotonic_s() + deadline_s;
  FileDescriptor socket = connect_to(address, port, deadline);
  const Json hello = {{"rank", mine.rank},
                      {"size", mine.size},
                      {"run_id", mine.run_id},
                      {"build", mine.build},
                      {"configuration", mine.configuration},
                      {"host", mine.host},
                      {"process", mine.process},
                      {"role", role}};
  send_all(socket.get(), std::string(kStoreMagic) + framed(kHello, hello.dump()), deadline);
  const Message answer = receive_message(socket.get(), deadline);
  if (answer.type == kWelcome) return socket;
  if (answer.type == kRefused)
    throw Error(ErrorKind::environment, printable(answer.rest, kShownReason),
                "start all ranks with the same program and the same flags");
  throw Error(ErrorKind::environment,
              fmt::format("what listens at {}:{} is no rank 0 of this program, or has ended",
                          address, port),
              "set RIDGELINE_PORT to another port, on all ranks");
}

StoreClient::StoreClient(const RankFacts& mine, const std::string& address, int port,
                         double deadline_s)
    : socket_(say_hello(mine, "store", address, port, deadline_s)) {}

std::string StoreClient::ask(char type, const std::string& request, const std::string& what,
                             double seconds) {
  const std::lock_guard lock(mutex_);
  const double deadline = monotonic_s() + seconds + kAnswerS;
  send_all(socket_.get(), framed(type, request), deadline);
  const Message answer = receive_message(socket_.get(), deadline);
  if (answer.type == kAnswer) return answer.rest;
  if (answer.type == kFailed)
    throw Error(ErrorKind::environment, printable(answer.rest, kShownReason));
  throw Error(ErrorKind::environment,
              fmt::format("rank 0 is gone, or does not answer, while this rank was at {}", what));
}

void StoreClient::set(const std::string& key, std::string_view value) {
  ask(kSet, (key + '\0').append(value), "setting " + key, 0);
}

std::string StoreClient::get(const std::string& key, double seconds) {
  return ask(kGet, fmt::format("{}", seconds) + '\0' + key, "waiting for " + key, seconds);
}

void StoreClient::barrier(const std::string& name, double seconds) {
  ask(kBarrier, fmt::format("{}", seconds) + '\0' + name, "the barrier " + name, seconds);
}

}  // namespace ridgeline
