// TCP sockets with deadlines, and length-prefixed messages over them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/file_io.h"

namespace ridgeline {

// Listens on all interfaces, or on loopback only for "127.0.0.1"; port 0: any. Throws an
// environment error that names the port, for instance if it is in use.
struct Listener {
  FileDescriptor socket;
  int port = 0;
};
Listener listen_on(const std::string& address, int port);

// Retries until the deadline (of monotonic_s), then throws an environment error.
FileDescriptor connect_to(const std::string& address, int port, double deadline);

std::string local_address_of(int socket);
std::string peer_address_of(int socket);

// Send or receive all bytes. Return false after the deadline or if the peer has closed.
bool send_all(int socket, std::string_view bytes, double deadline);
bool receive_all(int socket, char* bytes, size_t count, double deadline);

// A message is its length in four bytes, a byte for its type, and the rest.
inline constexpr size_t kLongestMessage = size_t{16} << 20;
std::string framed(char type, std::string_view rest);
struct Message {
  char type = 0;  // 0: no message, or the peer has closed
  std::string rest;
};
Message receive_message(int socket, double deadline);

}  // namespace ridgeline
