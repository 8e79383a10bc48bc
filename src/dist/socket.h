// TCP with deadlines, and messages of a bounded length over it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file_io.h"

namespace ridgeline {

// Listens on all interfaces, or on this host alone for "127.0.0.1"; port 0: any. Throws an
// environment error that names the port, one that is in use for instance.
struct Listener {
  FileDescriptor socket;
  int port = 0;
};
Listener listen_on(const std::string& address, int port);

// Tries again until it is reached or the deadline (of monotonic_s) has passed. Throws an
// environment error.
FileDescriptor connect_to(const std::string& address, int port, double deadline);

// The addresses of both ends.
std::string local_address_of(int socket);
std::string peer_address_of(int socket);

// All of it before the deadline; false: not, or the peer is gone.
bool send_all(int socket, std::string_view bytes, double deadline);
bool receive_all(int socket, char* bytes, size_t count, double deadline);

// A message is its length in four bytes, a byte that says what it is, and the rest.
inline constexpr size_t kLongestMessage = size_t{16} << 20;
std::string framed(char type, std::string_view rest);
struct Message {
  char type = 0;  // 0: none came, or the peer is gone
  std::string rest;
};
Message receive_message(int socket, double deadline);

}  // namespace ridgeline
