// The rendezvous: a key-value store on rank 0 that all ranks of a run reach by TCP. It refuses
// processes of other runs, and ranks whose build or configuration differs from that of rank 0.
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

// What a rank reports of itself. All ranks of a run must have the same run id, size, build and
// configuration.
struct RankFacts {
  int rank = 0, size = 1;
  std::string run_id;
  std::string build;          // version and commit
  std::string configuration;  // as text
  std::string host;
  int process = 0;

  std::string label() const;  // "rank 2 (host b, process 1234)"
};
// Fills in the host and process id of this process.
RankFacts rank_facts(int rank, int size);

struct StoreOptions {
  double hello_s = 10;      // a connection without a hello by then is dropped
  double heartbeat_s = 30;  // a rank without a heartbeat for that long counts as dead
};

class StoreServer {
 public:
  StoreServer(const RankFacts& mine, Listener listener, const StoreOptions& options = {});
  ~StoreServer();
  int port() const;
  // Waits until all ranks have left, one has failed, or the time is over.
  void wait_for_leaves(double seconds);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// Thread-safe: requests are serialized.
class StoreClient {
 public:
  // Throws an environment error if the server is not reached or refuses, with the reason.
  StoreClient(const RankFacts& mine, const std::string& address, int port, double deadline_s);

  void set(const std::string& key, std::string_view value);
  // Waits for the key. Throws an environment error after `seconds`, and if the run has failed.
  std::string get(const std::string& key, double seconds);
  // Returns when all ranks have arrived; after `seconds`, throws an error that names the missing.
  void barrier(const std::string& name, double seconds);

  std::string local_address() const { return local_address_of(socket_.get()); }
  std::string server_address() const { return peer_address_of(socket_.get()); }

 private:
  std::string ask(char type, const std::string& request, const std::string& what, double seconds);

  std::mutex mutex_;
  FileDescriptor socket_;
};

// The protocol: a connection begins with these bytes and a hello, for a store or for a watch. A
// zero byte, which no key contains, separates the parts of a message.
inline constexpr std::string_view kStoreMagic = "RIDGELN1";
namespace store_message {
inline constexpr char kHello = 'h', kWelcome = 'w', kRefused = 'r', kSet = 's', kGet = 'g',
                      kBarrier = 'b', kAnswer = 'a', kFailed = 'f', kBeat = 't', kLeave = 'l',
                      kDead = 'd';
}
// Connects and sends a hello; throws an environment error if the store refuses it. `role`: "store"
// or "watch".
FileDescriptor say_hello(const RankFacts& mine, std::string_view role, const std::string& address,
                         int port, double deadline_s);

}  // namespace ridgeline
