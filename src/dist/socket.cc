#include "dist/socket.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <thread>

#include "base/clock.h"
#include "base/error.h"

namespace ridgeline {
namespace {

constexpr double kBetweenTriesS = 0.05;
constexpr int kWaiting = 1024;  // backlog of connections that are not accepted yet

// Waits until the socket is ready for `events`. Returns false after the deadline or an error.
bool wait_until_ready(int socket, short events, double deadline) {
  while (true) {
    const double left = deadline - monotonic_s();
    if (left <= 0) return false;
    pollfd polled{socket, events, 0};
    const int ready = poll(&polled, 1, static_cast<int>(std::ceil(1e3 * std::min(left, 3600.0))));
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR) return false;
  }
}

void set_option(int socket, int level, int option) {
  const int on = 1;
  setsockopt(socket, level, option, &on, sizeof on);
}

std::string address_by(int (*ask)(int, sockaddr*, socklen_t*), int socket) {
  sockaddr_in where{};
  socklen_t length = sizeof where;
  char text[INET_ADDRSTRLEN] = "127.0.0.1";
  if (ask(socket, reinterpret_cast<sockaddr*>(&where), &length) == 0)
    inet_ntop(AF_INET, &where.sin_addr, text, sizeof text);
  return text;
}

}  // namespace

Listener listen_on(const std::string& address, int port) {
  Listener listener{FileDescriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0))};
  const int fd = listener.socket.get();
  set_option(fd, SOL_SOCKET, SO_REUSEADDR);
  sockaddr_in where{};
  where.sin_family = AF_INET;
  where.sin_port = htons(static_cast<uint16_t>(port));
  where.sin_addr.s_addr = htonl(address == "127.0.0.1" ? INADDR_LOOPBACK : INADDR_ANY);
  if (fd < 0 || bind(fd, reinterpret_cast<sockaddr*>(&where), sizeof where) != 0 ||
      listen(fd, kWaiting) != 0) {
    const int why = errno;
    throw Error(ErrorKind::environment,
                fmt::format("rank 0 cannot listen on port {}: {}", port, errno_text(why)),
                why == EADDRINUSE
                    ? "another program, perhaps another run, has it: set RIDGELINE_PORT to a free "
                      "one on all ranks"
                    : "set RIDGELINE_PORT to a port that may be used, on all ranks");
  }
  socklen_t length = sizeof where;
  getsockname(fd, reinterpret_cast<sockaddr*>(&where), &length);
  listener.port = ntohs(where.sin_port);
  return listener;
}

FileDescriptor connect_to(const std::string& address, int port, double deadline) {
  std::string why = "no address";
  const double began = monotonic_s();
  while (true) {
    addrinfo hints{};
    hints.ai_family = AF_INET;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* found = nullptr;
    const int problem =
        getaddrinfo(address.c_str(), fmt::format("{}", port).c_str(), &hints, &found);
    if (problem != 0) why = gai_strerror(problem);
    for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
      FileDescriptor fd(
          socket(each->ai_family, each->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      int error = 0;
      socklen_t length = sizeof error;
      if (connect(fd.get(), each->ai_addr, each->ai_addrlen) != 0) error = errno;
      if (error == EINPROGRESS) {
        error = ETIMEDOUT;
        if (wait_until_ready(fd.get(), POLLOUT, deadline))
          getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
      }
      if (error == 0) {
        freeaddrinfo(found);
        set_option(fd.get(), IPPROTO_TCP, TCP_NODELAY);
        set_option(fd.get(), SOL_SOCKET, SO_KEEPALIVE);
        return fd;
      }
      why = errno_text(error);
    }
    if (found != nullptr) freeaddrinfo(found);
    if (monotonic_s() + kBetweenTriesS >= deadline) break;
    std::this_thread::sleep_for(std::chrono::duration<double>(kBetweenTriesS));
  }
  throw Error(ErrorKind::environment,
              fmt::format("rank 0 is not reached at {}:{} within {:.0f} s: {}", address, port,
                          monotonic_s() - began, why),
              "has rank 0 started, and may this host connect to that port? MASTER_ADDR and "
              "RIDGELINE_PORT say where it is looked for");
}

std::string local_address_of(int socket) {
  return address_by(getsockname, socket);
}

std::string peer_address_of(int socket) {
  return address_by(getpeername, socket);
}

bool send_all(int socket, std::string_view bytes, double deadline) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<size_t>(sent));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return false;
    if (!wait_until_ready(socket, POLLOUT, deadline)) return false;
  }
  return true;
}

bool receive_all(int socket, char* bytes, size_t count, double deadline) {
  while (count > 0) {
    const ssize_t got = recv(socket, bytes, count, MSG_DONTWAIT);
    if (got == 0) return false;
    if (got > 0) {
      bytes += got;
      count -= static_cast<size_t>(got);
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) return false;
    if (!wait_until_ready(socket, POLLIN, deadline)) return false;
  }
  return true;
}

std::string framed(char type, std::string_view rest) {
  const uint32_t length = htonl(static_cast<uint32_t>(rest.size()));
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof length);
  return bytes.append(1, type).append(rest);
}

Message receive_message(int socket, double deadline) {
  char head[5];
  if (!receive_all(socket, head, sizeof head, deadline)) return {};
  uint32_t length = 0;
  std::memcpy(&length, head, sizeof length);
  length = ntohl(length);
  if (length > kLongestMessage) return {};
  Message message{head[4], std::string(length, 0)};
  if (!receive_all(socket, message.rest.data(), length, deadline)) return {};
  return message;
}

}  // namespace ridgeline
