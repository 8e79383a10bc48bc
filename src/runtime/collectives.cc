#include "runtime/collectives.h"

#include <fmt/format.h>

#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "graph/layout.h"

namespace ridgeline {

CommunicationTotals totals(const std::vector<CollectiveRun>& runs) {
  CommunicationTotals all;
  for (const CollectiveRun& run : runs) {
    all.communication_ms += static_cast<double>(run.ended_ns - run.began_ns) / 1e6;
    all.exposed_ms += static_cast<double>(run.waited_ns) / 1e6;
    all.sent_bytes += run.sent_bytes;
    ++all.collectives;
  }
  return all;
}

Collectives::Collectives(Device& device, Communicator* communicator)
    : device_(device), communicator_(communicator) {}

Collectives::~Collectives() {
  drop_all();
}

void Collectives::check(const Graph& graph) const {
  for (const Node& node : graph.nodes()) {
    if (!is_collective(node.op)) continue;
    if (device_.has_queue())
      throw Error(ErrorKind::unsupported,
                  fmt::format("graphs with collectives do not run on the device {}", device_.name()),
                  "use --device cpu");
    const int ranks = communicator_ == nullptr ? 0 : communicator_->size();
    if (ranks != rank_count(node))
      throw Error(ErrorKind::usage,
                  fmt::format("the graph was made for {} ranks, and {}", rank_count(node),
                              ranks == 0 ? std::string("there is no communicator")
                                         : fmt::format("the communicator has {}", ranks)));
  }
}

void Collectives::begin_run() {
  join_all();
  runs_.clear();
}

void Collectives::start(uint32_t number, const Node& node, const std::string& name,
                        const TensorView& in, const TensorView& out) {
  if (!is_contiguous(in.shape, in.strides) || !is_contiguous(out.shape, out.strides))
    throw Error(ErrorKind::internal, fmt::format("{} has an operand that is in pieces", name));
  const int64_t in_count = element_count(in.shape), out_count = element_count(out.shape);
  const Collective what{.kind = collective_kind(node.op),
                        .dtype = in.dtype,
                        .count = node.op == Op::all_gather ? out_count : in_count,
                        .in = in.data,
                        .out = out.data,
                        .name = name};
  if (node.op == Op::reduce_scatter && !device_.has_own_memory()) {
    const int64_t mine = shard_of(what.count, communicator_->rank(), communicator_->size()).count;
    const int size = info(in.dtype).size;
    std::memset(static_cast<char*>(out.data) + mine * size, 0,
                static_cast<size_t>((out_count - mine) * size));
  }
  std::vector<EventRef> after;
  if (EventRef queued = device_.queued_work()) after.push_back(std::move(queued));
  pending_[number] = {communicator_->start(what, std::move(after)), runs_.size()};
  runs_.push_back({.name = name,
                   .kind = what.kind,
                   .bytes = what.bytes(),
                   .sent_bytes = bus_factor(what.kind, communicator_->size()) *
                                 static_cast<double>(what.bytes())});
}

void Collectives::finish(Pending& pending) {
  CollectiveRun& run = runs_[pending.run];
  if (!pending.event->is_done()) {
    const int64_t began = monotonic_ns();
    device_.wait_for(*pending.event);
    run.waited_ns = monotonic_ns() - began;
  } else {
    device_.wait_for(*pending.event);  // throws what it has thrown
  }
  if (const auto span = pending.event->span()) {
    run.began_ns = span->began_ns;
    run.ended_ns = span->ended_ns;
  }
}

void Collectives::join(uint32_t number) {
  const auto found = pending_.find(number);
  if (found == pending_.end()) return;
  Pending pending = std::move(found->second);
  pending_.erase(found);
  finish(pending);
}

void Collectives::join_all() {
  while (!pending_.empty()) join(pending_.begin()->first);
}

void Collectives::drop_all() noexcept {
  for (auto& [number, pending] : pending_) try {
      pending.event->wait();
    } catch (...) {
      // What it has thrown is the caller's other error, or comes after it.
    }
  pending_.clear();
}

}  // namespace ridgeline
