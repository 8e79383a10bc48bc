#include "dist/host_communicator.h"

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>

#include "base/clock.h"

namespace ridgeline {
namespace {

class HostCommunicator final : public Communicator {
 public:
  HostCommunicator(std::unique_ptr<HostBackend> backend, RankActivity* activity)
      : backend_(std::move(backend)), activity_(activity) {}

  ~HostCommunicator() override {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
  }

  const CommunicatorFacts& facts() const override { return backend_->facts(); }

  EventRef start(const Collective& what, std::vector<EventRef> after) override {
    check_collective(what, size());
    auto done = std::make_shared<HostEvent>();
    const std::lock_guard lock(mutex_);
    queue_.push_back({what, std::move(after), done});
    if (!thread_.joinable()) thread_ = std::thread([this] { work(); });
    changed_.notify_all();
    return done;
  }

  void run(const Collective& what) override {
    check_collective(what, size());
    std::unique_lock lock(mutex_);
    if (!queue_.empty() || busy_) {
      lock.unlock();
      start(what, {})->wait();
      return;
    }
    busy_ = true;  // collectives started meanwhile are queued
    lock.unlock();
    const std::exception_ptr failure = run_one(what);
    lock.lock();
    busy_ = false;
    changed_.notify_all();
    if (failure) std::rethrow_exception(failure);
  }

 private:
  struct Queued {
    Collective what;
    std::vector<EventRef> after;
    std::shared_ptr<HostEvent> done;
  };

  // After one failure a rank is out of step with the others, so all later collectives fail too.
  std::exception_ptr run_one(const Collective& what) {
    if (failure_) return failure_;
    try {
      const RankActivity::Scope scope(activity_, what);
      backend_->run(what);
    } catch (...) {
      failure_ = std::current_exception();
    }
    return failure_;
  }

  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock,
                    [&] { return (!queue_.empty() && !busy_) || (closing_ && queue_.empty()); });
      if (queue_.empty()) return;
      Queued next = std::move(queue_.front());
      queue_.pop_front();
      busy_ = true;
      lock.unlock();
      std::exception_ptr failure;
      try {
        for (const EventRef& event : next.after) event->wait();
        const int64_t began = monotonic_ns();
        failure = run_one(next.what);
        next.done->set_span({began, monotonic_ns()});
      } catch (...) {
        failure = failure_ = std::current_exception();
      }
      if (failure)
        next.done->fail(failure);
      else
        next.done->set();
      lock.lock();
      busy_ = false;
      changed_.notify_all();
    }
  }

  std::unique_ptr<HostBackend> backend_;
  RankActivity* activity_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Queued> queue_;
  bool busy_ = false, closing_ = false;  // busy: a thread is inside the backend
  std::exception_ptr failure_;           // accessed only by the thread that set busy_
  std::thread thread_;
};

}  // namespace

std::unique_ptr<Communicator> make_host_communicator(std::unique_ptr<HostBackend> backend,
                                                     RankActivity* activity) {
  return std::make_unique<HostCommunicator>(std::move(backend), activity);
}

}  // namespace ridgeline
