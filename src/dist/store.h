// The rendezvous: a store of keys and values on rank 0 that all ranks of a run reach by TCP.
// Whoever is not of this run, or does not agree with rank 0, is refused by name.
//
//   StoreServer server(mine, listen_on("127.0.0.1", 0));       // on rank 0
//   StoreClient store(mine, "127.0.0.1", server.port(), 60);   // on every rank
//   store.barrier("join", 60);
//   store.set("gloo/0", address);
//   std::string theirs = store.get("gloo/1", 60);
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "dist/socket.h"

namespace ridgeline {

// What a rank says of itself. All ranks of a run have the same run id, version, size and
// configuration.
struct RankFacts {
  int rank = 0, size = 1;
  std::string run_id;
  std::string build;          // version and commit
  std::string configuration;  // what all ranks have to agree on, as text
  std::string host;
  int process = 0;

  std::string label() const;  // "rank 2 (host b, process 1234)"
};
// Host and process of this one.
RankFacts rank_facts(int rank, int size);

struct StoreOptions {
  double hello_s = 10;      // a connection that has not said who it is by then is dropped
  double heartbeat_s = 30;  // without a sign of life a rank counts as dead
};

class StoreServer {
 public:
  StoreServer(const RankFacts& mine, Listener listener, const StoreOptions& options = {});
  ~StoreServer();
  int port() const;
  // Waits until all ranks have left, at most so long.
  void wait_for_leaves(double seconds);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// One thread at a time is served; the others wait.
class StoreClient {
 public:
  // Throws an environment error: not reached, refused, and by whom and why.
  StoreClient(const RankFacts& mine, const std::string& address, int port, double deadline_s);

  void set(const std::string& key, std::string_view value);
  // Waits for the key. Throws an environment error after so many seconds, and when the run has
  // failed elsewhere.
  std::string get(const std::string& key, double seconds);
  // Returns when all ranks have come here; else the error names those that have not.
  void barrier(const std::string& name, double seconds);

  std::string local_address() const { return local_address_of(socket_.get()); }
  std::string server_address() const { return peer_address_of(socket_.get()); }

 private:
  std::string ask(char type, const std::string& request, const std::string& what, double seconds);

  std::mutex mutex_;
  FileDescriptor socket_;
};

// The protocol: a connection begins with these bytes and a hello, for a store or for a watch. Parts
// of a message are parted by a byte of 0, which no key has.
inline constexpr std::string_view kStoreMagic = "RIDGELN1";
namespace store_message {
inline constexpr char kHello = 'h', kWelcome = 'w', kRefused = 'r', kSet = 's', kGet = 'g',
                      kBarrier = 'b', kAnswer = 'a', kFailed = 'f', kBeat = 't', kLeave = 'l',
                      kDead = 'd';
}
// Connects and says hello; throws what the store refuses. `role`: "store" or "watch".
FileDescriptor say_hello(const RankFacts& mine, std::string_view role, const std::string& address,
                         int port, double deadline_s);

}  // namespace ridgeline
