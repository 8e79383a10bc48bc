#include "dist/world.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <csignal>
#include <exception>
#include <thread>

#include "base/clock.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/print.h"
#include "base/printable.h"
#include "dist/plugin_backend.h"

namespace ridgeline {
namespace {

using namespace store_message;

constexpr std::string_view kLoop = "127.";
constexpr double kWatchTickS = 0.2;
constexpr useconds_t kWatchUs = 1'000'000;
constexpr double kLeaveS = 10;  // for which rank 0 waits for the others at the end

// Waits for the port in a file, which rank 0 writes when it listens on any free port.
int port_in(const std::string& file, double deadline_s) {
  const double deadline = monotonic_s() + deadline_s;
  while (true) {
    std::error_code missing;
    if (std::filesystem::exists(file, missing)) {
      const std::string text = read_file(file, 64);
      int port = 0;
      std::from_chars(text.data(), text.data() + text.size(), port);
      if (port > 0) return port;
    }
    if (monotonic_s() > deadline)
      throw Error(
          ErrorKind::environment,
          fmt::format("rank 0 has not written its port to '{}' within {:g} s", file, deadline_s));
    usleep(5000);
  }
}

}  // namespace

// A connection to rank 0 with heartbeats, and a thread that reports the end or failure of a rank.
class World::Watch {
 public:
  Watch(const World& world, FileDescriptor socket)
      : world_(world), socket_(std::move(socket)), thread_([this] { watch(); }) {}

  ~Watch() {
    stop_ = true;
    thread_.join();
  }

  void leave(bool failed) {
    is_leaving_ = true;
    send_all(socket_.get(), framed(kLeave, failed ? "failed" : ""), monotonic_s() + 1);
  }

 private:
  void watch() {
    double last_heard = monotonic_s(), last_beat = 0;
    while (!stop_ && !is_leaving_) {
      pollfd polled{socket_.get(), POLLIN, 0};
      const int ready = poll(&polled, 1, static_cast<int>(1e3 * kWatchTickS));
      const double now = monotonic_s();
      if (now - last_beat > 1) {
        last_beat = now;
        send_all(socket_.get(), framed(kBeat, ""), now + 1);
      }
      if (ready > 0) {
        const Message message = receive_message(socket_.get(), now + 5);
        if (is_leaving_) return;
        last_heard = now;
        if (message.type == 0) return lost("rank 0 has died");
        if (message.type == kDead || message.type == kFailed)
          return lost(printable(message.rest, 600));
      }
      const double heartbeat_s = world_.options_.store.heartbeat_s;
      if (now - last_heard > heartbeat_s)
        return lost(fmt::format("rank 0 has given no sign of life for {:g} s", heartbeat_s));
      if (const double s = world_.activity_->in_collective_s(); s > world_.options_.collective_s)
        return lost(fmt::format("a collective has lasted for {:.0f} s", s));
    }
  }

  void lost(const std::string& why) {
    const std::string doing = world_.activity_->words();
    const std::string text = fmt::format("{}; rank {} of {} was at: {}", why, world_.rank(),
                                         world_.size(), doing.empty() ? "no collective" : doing);
    if (world_.options_.lost) return world_.options_.lost(text);
    say("{}", text);
    _exit(exit_code(ErrorKind::environment));
  }

  const World& world_;
  FileDescriptor socket_;
  std::atomic<bool> stop_{false}, is_leaving_{false};
  std::thread thread_;
};

World::World(const LaunchedRank& launched, WorldOptions options)
    : launched_(launched), options_(std::move(options)), exceptions_(std::uncaught_exceptions()) {
  std::signal(SIGPIPE, SIG_IGN);  // libraries may write to ranks that have ended
  const std::string activity = environment(kActivityVariable);
  activity_ = activity.empty() ? std::make_unique<RankActivity>()
                               : std::make_unique<RankActivity>(activity);
  activity_->set("joining the other ranks");
  RankFacts mine = rank_facts(launched_.rank, launched_.size);
  mine.run_id = launched_.run_id;
  mine.build = options_.build;
  mine.configuration = options_.configuration;
  if (rank() == 0) {
    Listener listener = listen_on(launched_.address, launched_.port);
    launched_.port = listener.port;
    server_ = std::make_unique<StoreServer>(mine, std::move(listener), options_.store);
    if (!launched_.port_file.empty())
      write_file_atomically(launched_.port_file, fmt::format("{}\n", launched_.port));
  } else if (launched_.port == 0) {
    launched_.port = port_in(launched_.port_file, options_.join_s);
  }
  // Rank 0 reaches itself without resolving its host name.
  const std::string address = rank() == 0 ? "127.0.0.1" : launched_.address;
  store_ = std::make_unique<StoreClient>(mine, address, launched_.port, options_.join_s);
  FileDescriptor watched = say_hello(mine, "watch", address, launched_.port, options_.join_s);
  store_->barrier("join", options_.join_s);
  watch_ = std::make_unique<Watch>(*this, std::move(watched));
  find_address();
  activity_->set("");
}

// Rank 0 connects to itself by loopback, and learns its address from the ranks that reach it by
// another one. A rank that reaches it by loopback is on the same host, and has the same address.
void World::find_address() {
  constexpr const char* kOfRankZero = "address of rank 0";
  address_ = store_->local_address();
  if (rank() == 0) {
    for (int other = 1; other < size() && address_.starts_with(kLoop); ++other)
      address_ = store_->get(fmt::format("reached by {}", other), options_.join_s);
    return store_->set(kOfRankZero, address_);
  }
  store_->set(fmt::format("reached by {}", rank()), store_->server_address());
  if (address_.starts_with(kLoop)) address_ = store_->get(kOfRankZero, options_.join_s);
}

World::~World() {
  const bool failed = std::uncaught_exceptions() > exceptions_;
  watch_->leave(failed);
  if (server_) server_->wait_for_leaves(failed ? 0.5 : kLeaveS);
}

std::unique_ptr<Communicator> World::communicator(const std::string& backend) {
  activity_->set("opening " + backend);
  auto opened =
      open_plugin_backend(backend, {.rank = rank(),
                                    .size = size(),
                                    .local_address = address_,
                                    .timeout_s = options_.collective_s,
                                    .prefix = fmt::format("{}/{}/", backend, communicators_++),
                                    .store = store_.get(),
                                    // A library mostly fails because a rank has ended: gives the
                                    // watch time to name it and to end this process.
                                    .before_failing = [] { usleep(kWatchUs); }});
  activity_->set("");
  return make_host_communicator(std::move(opened), activity_.get());
}

}  // namespace ridgeline
