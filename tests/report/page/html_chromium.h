// A headless Chromium that a test controls through its debugging pipe: opens a page, collects its
// errors and requests, and evaluates expressions in it.
#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

namespace ridgeline {

class Chromium {
 public:
  using Message = nlohmann::json;

  // Returns the path of the browser, or an empty string if it is not installed.
  static std::string find() {
    for (const char* path :
         {"/usr/bin/chromium", "/usr/bin/google-chrome", "/usr/bin/chromium-browser"})
      if (access(path, X_OK) == 0) return path;
    return {};
  }

  explicit Chromium(const std::filesystem::path& profile) {
    int to_child[2], from_child[2];
    if (pipe(to_child) != 0 || pipe(from_child) != 0) throw std::runtime_error("pipe");
    const std::string program = find(), directory = "--user-data-dir=" + profile.string();
    pid_ = fork();
    if (pid_ == 0) {
      // Chromium reads commands from descriptor 3 and writes answers to 4; both may be in use.
      const int in = fcntl(to_child[0], F_DUPFD, 10), out = fcntl(from_child[1], F_DUPFD, 10);
      const int null = open("/dev/null", O_RDWR);
      setpgid(0, 0);
      dup2(in, 3);
      dup2(out, 4);
      dup2(null, STDOUT_FILENO);
      dup2(null, STDERR_FILENO);
      execl(program.c_str(), program.c_str(), "--headless", "--no-sandbox", "--disable-gpu",
            "--disable-dev-shm-usage", "--no-first-run", "--window-size=1280,1600",
            "--remote-debugging-pipe", directory.c_str(), static_cast<char*>(nullptr));
      _exit(127);
    }
    close(to_child[0]);
    close(from_child[1]);
    in_ = from_child[0];
    out_ = to_child[1];
    const auto target = call("Target.createTarget", {{"url", "about:blank"}});
    session_ =
        call("Target.attachToTarget", {{"targetId", target.at("targetId")}, {"flatten", true}})
            .at("sessionId");
    for (const char* domain : {"Page", "Runtime", "Log", "Network"})
      call(std::string(domain) + ".enable", Message::object());
  }
  ~Chromium() {
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    close(in_);
    close(out_);
  }
  Chromium(const Chromium&) = delete;
  Chromium& operator=(const Chromium&) = delete;

  void open_page(const std::filesystem::path& file) {
    loaded_ = false;
    call("Page.navigate", {{"url", "file://" + file.string()}});
    while (!loaded_) receive();
  }

  void set_dark(bool dark) {
    call("Emulation.setEmulatedMedia",
         {{"features", {{{"name", "prefers-color-scheme"}, {"value", dark ? "dark" : "light"}}}}});
  }
  void set_width(int width) {
    call("Emulation.setDeviceMetricsOverride",
         {{"width", width}, {"height", 900}, {"deviceScaleFactor", 1}, {"mobile", width < 600}});
  }

  // Moves the pointer to a position of the window.
  void hover(double x, double y) { pointer("mouseMoved", x, y); }
  void click(double x, double y) {
    hover(x, y);
    pointer("mousePressed", x, y);
    pointer("mouseReleased", x, y);
  }
  // Presses a key by its name: "ArrowRight", "+", "Escape".
  void press(const std::string& key) {
    for (const char* type : {"keyDown", "keyUp"})
      call("Input.dispatchKeyEvent", {{"type", type}, {"key", key}});
  }

  // Returns the value of a JavaScript expression; awaits a promise.
  Message evaluate(const std::string& expression) {
    const Message result =
        call("Runtime.evaluate",
             {{"expression", expression}, {"returnByValue", true}, {"awaitPromise", true}});
    if (result.contains("exceptionDetails"))
      throw std::runtime_error(result["exceptionDetails"].dump());
    return result.at("result").value("value", Message());
  }

  std::vector<std::string> errors;    // exceptions, console messages, refused scripts
  std::vector<std::string> requests;  // except for the page itself and data: URLs

 private:
  void pointer(const char* type, double x, double y) {
    const bool moves = std::string_view(type) == "mouseMoved";
    call("Input.dispatchMouseEvent", {{"type", type},
                                      {"x", x},
                                      {"y", y},
                                      {"button", moves ? "none" : "left"},
                                      {"clickCount", moves ? 0 : 1}});
  }

  Message call(const std::string& method, const Message& params) {
    Message message = {{"id", ++last_id_}, {"method", method}, {"params", params}};
    if (!session_.empty()) message["sessionId"] = session_;
    const std::string text = message.dump() + '\0';
    if (write(out_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
      throw std::runtime_error("Chromium does not listen");
    while (true) {
      Message answer = receive();
      if (answer.value("id", 0) != last_id_) continue;
      if (answer.contains("error"))
        throw std::runtime_error(method + ": " + answer["error"].dump());
      return answer.at("result");
    }
  }

  // Returns the next message; events update the fields above.
  Message receive() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(90);
    size_t end;
    while ((end = buffer_.find('\0')) == std::string::npos) {
      pollfd waiting{in_, POLLIN, 0};
      if (std::chrono::steady_clock::now() > deadline || poll(&waiting, 1, 60'000) <= 0)
        throw std::runtime_error("Chromium does not answer");
      char chunk[1 << 16];
      const ssize_t got = read(in_, chunk, sizeof chunk);
      if (got <= 0) throw std::runtime_error("Chromium has ended");
      buffer_.append(chunk, static_cast<size_t>(got));
    }
    Message message = Message::parse(buffer_.substr(0, end));
    buffer_.erase(0, end + 1);
    const std::string method = message.value("method", "");
    const Message params = message.value("params", Message::object());
    if (method == "Page.loadEventFired") loaded_ = true;
    if (method == "Runtime.exceptionThrown") errors.push_back(params.dump());
    if (method == "Runtime.consoleAPICalled" || method == "Log.entryAdded")
      errors.push_back(params.dump());
    if (method == "Network.requestWillBeSent") {
      const std::string url = params.at("request").at("url");
      const bool page = params.value("type", "") == "Document" && url.starts_with("file:");
      if (!page && !url.starts_with("data:")) requests.push_back(url);
    }
    return message;
  }

  pid_t pid_ = -1;
  int in_ = -1, out_ = -1;
  int last_id_ = 0;
  std::string session_;
  std::string buffer_;
  bool loaded_ = false;
};

// Skips the test if there is no browser.
#define NEEDS_CHROMIUM()        \
  if (Chromium::find().empty()) \
  GTEST_SKIP() << "no Chromium is installed: apt-get install --no-install-recommends chromium"

}  // namespace ridgeline
