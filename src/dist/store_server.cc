// The store's server: one thread serves all connections without blocking on any of them.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <arpa/inet.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <condition_variable>
#include <cstring>
#include <map>
#include <set>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/json.h"
#include "base/printable.h"
#include "dist/store.h"

namespace ridgeline {
namespace {

using namespace store_message;

constexpr size_t kLongestHello = 64 << 10;
constexpr double kTickS = 0.2;
constexpr double kBeatS = 1;
constexpr size_t kShownConfiguration = 160;

std::string ranks_text(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(ranks, ", "));
}

}  // namespace

class StoreServer::Impl {
  struct Connection {
    FileDescriptor socket;
    double began = 0;
    std::string received = {};
    std::string to_send = {};
    int rank = -1;  // negative: no hello yet
    bool is_watch = false, left = false, closing = false;
    double last_heard = 0;
  };

  struct Waiting {
    Connection* who;
    std::string key;  // of a value, or the name of a barrier
    bool is_barrier = false;
    double deadline = 0, seconds = 0;
  };

 public:
  Impl(const RankFacts& mine, Listener listener, const StoreOptions& options)
      : mine_(mine), listener_(std::move(listener)), options_(options), ranks_(mine.size) {
    thread_ = std::thread([this] { serve(); });
  }

  ~Impl() {
    stop_ = true;
    thread_.join();
  }

  int port() const { return listener_.port; }

  void wait_for_leaves(double seconds) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                      [&] { return leaves_ >= mine_.size || has_failed_; });
  }

 private:
  void serve() {
    while (!stop_) {
      std::vector<pollfd> polled = {{listener_.socket.get(), POLLIN, 0}};
      for (const auto& each : connections_)
        polled.push_back({each->socket.get(),
                          static_cast<short>(POLLIN | (each->to_send.empty() ? 0 : POLLOUT)), 0});
      poll(polled.data(), polled.size(), static_cast<int>(1e3 * kTickS));
      const size_t known = connections_.size();
      if (polled[0].revents != 0) accept_all();
      for (size_t i = 0; i < known; ++i) {
        Connection& connection = *connections_[i];
        if ((polled[i + 1].revents & (POLLIN | POLLHUP | POLLERR)) != 0) read_some(connection);
        if (!connection.to_send.empty()) write_some(connection);
      }
      look_at_clocks();
      std::erase_if(connections_, [&](const auto& each) {
        if (!each->closing) return false;
        std::erase_if(waiting_, [&](const Waiting& one) { return one.who == each.get(); });
        return true;
      });
    }
    for (const auto& each : connections_) write_some(*each);
  }

  void accept_all() {
    while (true) {
      const int fd =
          accept4(listener_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0) return;
      auto connection = std::make_unique<Connection>();
      connection->socket = FileDescriptor(fd);
      connection->began = connection->last_heard = monotonic_s();
      connections_.push_back(std::move(connection));
    }
  }

  void write_some(Connection& connection) {
    const ssize_t sent = send(connection.socket.get(), connection.to_send.data(),
                              connection.to_send.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) connection.to_send.erase(0, static_cast<size_t>(sent));
  }

  // Sends the last message if the socket accepts it at once, and closes the connection.
  void drop(Connection& connection, std::string_view last_message = {}) {
    connection.to_send += last_message;
    write_some(connection);
    connection.closing = true;
  }

  void drop_stranger(Connection& connection) {
    ++strangers_;
    drop(connection);
  }

  void read_some(Connection& connection) {
    char chunk[65536];
    const ssize_t got = recv(connection.socket.get(), chunk, sizeof chunk, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
    if (got <= 0) return ended(connection);
    connection.last_heard = monotonic_s();
    connection.received.append(chunk, static_cast<size_t>(got));
    if (connection.rank < 0 && !connection.closing) read_hello(connection);
    while (connection.rank >= 0 && !connection.closing && read_one(connection)) continue;
  }

  // Takes the first message from the received bytes; nullopt: it is not complete yet. The type is 0
  // if its length exceeds `longest` (garbage).
  static std::optional<Message> take_message(std::string& bytes, size_t longest) {
    if (bytes.size() < 5) return std::nullopt;
    uint32_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    length = ntohl(length);
    if (length > longest) return Message{};
    if (bytes.size() < 5 + length) return std::nullopt;
    Message message{bytes[4], bytes.substr(5, length)};
    bytes.erase(0, 5 + length);
    return message;
  }

  void read_hello(Connection& connection) {
    const size_t compared = std::min(kStoreMagic.size(), connection.received.size());
    if (connection.received.compare(0, compared, kStoreMagic, 0, compared) != 0)
      return drop_stranger(connection);
    if (connection.received.size() < kStoreMagic.size()) return;
    std::string after_magic = connection.received.substr(kStoreMagic.size());
    const std::optional<Message> message = take_message(after_magic, kLongestHello);
    if (!message) return;
    if (message->type != kHello) return drop_stranger(connection);
    const std::optional<Json> hello = Json::try_parse(message->rest);
    if (!hello || !hello->is_object()) return drop_stranger(connection);
    connection.received = std::move(after_magic);
    judge(connection, *hello);
  }

  void judge(Connection& connection, const Json& hello) {
    RankFacts theirs;
    theirs.rank = hello.value("rank", -1);
    theirs.size = hello.value("size", 0);
    theirs.run_id = hello.value("run_id", "");
    theirs.build = hello.value("build", "");
    theirs.configuration = hello.value("configuration", "");
    theirs.host = hello.value("host", "");
    theirs.process = hello.value("process", 0);
    connection.is_watch = hello.value("role", "") == "watch";
    const std::string who = theirs.label();
    if (theirs.run_id != mine_.run_id)
      return drop(connection,
                  framed(kRefused, fmt::format("the store at port {} serves run '{}', and {} is of "
                                               "run '{}': two runs have the same port",
                                               port(), printable(mine_.run_id, 60), who,
                                               printable(theirs.run_id, 60))));
    std::string wrong;
    const auto compare = [&](std::string_view what, const std::string& ours,
                             const std::string& other) {
      if (ours == other || !wrong.empty()) return;
      wrong = fmt::format("{} has {} '{}', and {} has '{}'", who, what,
                          printable(other, kShownConfiguration), mine_.label(),
                          printable(ours, kShownConfiguration));
    };
    compare("a world of size", fmt::format("{}", mine_.size), fmt::format("{}", theirs.size));
    compare("build", mine_.build, theirs.build);
    compare("the configuration", mine_.configuration, theirs.configuration);
    if (wrong.empty() && (theirs.rank < 0 || theirs.rank >= mine_.size))
      wrong = fmt::format("{} came to a world of {}", who, mine_.size);
    if (wrong.empty() && !connection.is_watch) {
      RankFacts& place = ranks_[static_cast<size_t>(theirs.rank)];
      if (place.process != 0)
        wrong = fmt::format("two processes say that they are rank {}: {} and {}", theirs.rank,
                            place.label(), who);
      else
        place = theirs;
    }
    if (!wrong.empty()) {
      drop(connection, framed(kRefused, wrong));
      return fail_run(wrong);
    }
    connection.rank = theirs.rank;
    connection.to_send += framed(kWelcome, "");
    if (!failure_.empty()) connection.to_send += framed(kFailed, failure_);
  }

  bool read_one(Connection& connection) {
    const std::optional<Message> message = take_message(connection.received, kLongestMessage);
    if (!message) return false;
    const auto& [type, rest] = *message;
    if (type == 0) {
      ended(connection);
      return false;
    }
    const size_t cut = std::min(rest.find('\0'), rest.size());
    const std::string first = rest.substr(0, cut);
    const std::string second = cut < rest.size() ? rest.substr(cut + 1) : std::string();
    if (type == kLeave) {
      for (const auto& each : connections_)  // both of the rank's, in whichever order they close
        if (each->rank == connection.rank) each->left = true;
      if (!first.empty()) {
        died(connection.rank, "has failed; its own message says why");
      } else if (connection.is_watch) {
        const std::lock_guard lock(mutex_);
        ++leaves_;
        changed_.notify_all();
      }
      return true;
    }
    if (type == kBeat) return true;
    if (!failure_.empty()) {
      connection.to_send += framed(kFailed, failure_);
      return true;
    }
    if (type == kSet) {
      values_[first] = second;
      connection.to_send += framed(kAnswer, "");
      answer_waiting(first);
    } else if (type == kGet || type == kBarrier) {
      double seconds = 0;
      std::from_chars(first.data(), first.data() + first.size(), seconds);
      waiting_.push_back({&connection, second, type == kBarrier, monotonic_s() + seconds, seconds});
      if (type == kBarrier) arrived_[second].insert(connection.rank);
      answer_waiting(second);
    }
    return true;
  }

  void answer_waiting(const std::string& key) {
    const auto value = values_.find(key);
    const auto arrived = arrived_.find(key);
    const bool all_here =
        arrived != arrived_.end() && arrived->second.size() == static_cast<size_t>(mine_.size);
    std::erase_if(waiting_, [&](const Waiting& one) {
      if (one.key != key) return false;
      if (one.is_barrier ? !all_here : value == values_.end()) return false;
      one.who->to_send += framed(kAnswer, one.is_barrier ? std::string() : value->second);
      return true;
    });
    if (all_here) arrived_.erase(arrived);  // so that the name can be reused
  }

  std::string too_late(const Waiting& one) const {
    if (!one.is_barrier)
      return fmt::format("'{}' was not set within {:g} s", printable(one.key, 60), one.seconds);
    std::vector<int> missing;
    const auto arrived = arrived_.find(one.key);
    for (int rank = 0; rank < mine_.size; ++rank)
      if (arrived == arrived_.end() || !arrived->second.contains(rank)) missing.push_back(rank);
    std::string text =
        fmt::format("{} of {} ranks came to '{}' within {:g} s; {} {} missing",
                    mine_.size - static_cast<int>(missing.size()), mine_.size, one.key, one.seconds,
                    ranks_text(missing), missing.size() == 1 ? "is" : "are");
    if (strangers_ > 0)
      text += fmt::format("; {} connection{} spoke something else and {} dropped", strangers_,
                          strangers_ == 1 ? "" : "s", strangers_ == 1 ? "was" : "were");
    return text;
  }

  void look_at_clocks() {
    const double now = monotonic_s();
    for (const auto& each : connections_) {
      if (each->rank < 0 && !each->closing && now - each->began > options_.hello_s)
        drop_stranger(*each);
      if (each->is_watch && !each->left && !each->closing &&
          now - each->last_heard > options_.heartbeat_s) {
        each->closing = true;
        died(each->rank, fmt::format("has given no sign of life for {:g} s", options_.heartbeat_s));
      }
    }
    if (now - last_beat_ > kBeatS) {
      last_beat_ = now;
      for (const auto& each : connections_)
        if (each->is_watch && each->rank >= 0) each->to_send += framed(kBeat, "");
    }
    for (const Waiting& one : waiting_)
      if (now > one.deadline) {
        fail_run(too_late(one));
        break;
      }
  }

  void ended(Connection& connection) {
    connection.closing = true;
    if (connection.rank < 0) {
      if (!connection.received.empty()) ++strangers_;
    } else if (!connection.left && (connection.is_watch || !is_watched(connection.rank))) {
      died(connection.rank, "has died");
    }
  }

  // A rank counts as dead when its watch ends, or its store connection if it has no watch yet.
  bool is_watched(int rank) const {
    return std::ranges::any_of(
        connections_, [&](const auto& each) { return each->is_watch && each->rank == rank; });
  }

  void died(int rank, const std::string& how) {
    fail_run(fmt::format("{} {}", ranks_[static_cast<size_t>(rank)].label(), how));
  }

  // Sends the failure to all ranks: to pending and later requests, and to watches. The watch of
  // rank 0 comes last: it ends this process, which the others would otherwise report as the cause.
  void fail_run(const std::string& why) {
    if (!failure_.empty()) return;
    failure_ = why;
    for (const Waiting& one : waiting_) one.who->to_send += framed(kFailed, why);
    waiting_.clear();
    const auto tell_watches = [&](auto is_one) {
      for (const auto& each : connections_)
        if (each->is_watch && is_one(each->rank) && !each->left && !each->closing) {
          each->to_send += framed(kDead, why);
          write_some(*each);
        }
    };
    tell_watches([](int rank) { return rank > 0; });
    tell_watches([](int rank) { return rank == 0; });
    const std::lock_guard lock(mutex_);
    has_failed_ = true;
    changed_.notify_all();
  }

  RankFacts mine_;
  Listener listener_;
  StoreOptions options_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::map<std::string, std::string> values_;
  std::map<std::string, std::set<int>> arrived_;
  std::vector<Waiting> waiting_;
  std::vector<RankFacts> ranks_;
  std::string failure_;
  int strangers_ = 0;
  double last_beat_ = 0;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // for leaves_ and has_failed_, which other threads read
  std::condition_variable changed_;
  int leaves_ = 0;
  bool has_failed_ = false;
  std::thread thread_;
};

StoreServer::StoreServer(const RankFacts& mine, Listener listener, const StoreOptions& options)
    : impl_(std::make_unique<Impl>(mine, std::move(listener), options)) {}
StoreServer::~StoreServer() = default;
int StoreServer::port() const {
  return impl_->port();
}
void StoreServer::wait_for_leaves(double seconds) {
  impl_->wait_for_leaves(seconds);
}

}  // namespace ridgeline
