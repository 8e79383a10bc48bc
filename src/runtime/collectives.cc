#include "runtime/collectives.h"

#include <fmt/format.h>

#include <algorithm>

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
  started_.clear();
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
  if (node.op == Op::reduce_scatter) {
    const int64_t mine = shard_of(what.count, communicator_->rank(), communicator_->size()).count;
    char* end = static_cast<char*>(out.data) + mine * info(in.dtype).size;
    if (mine < out_count) device_.clear({end, out.dtype, {out_count - mine}, {1}});
  }
  const EventRef queued = device_.queued_work();
  std::vector<EventRef> after;
  if (queued) after.push_back(queued);
  const int64_t now = monotonic_ns();
  EventRef done = communicator_->start(what, std::move(after));
  pending_[number] = started_.size();
  device_.leave_free(communicator_->facts().multiprocessors);
  started_.push_back({.run = {.name = name,
                              .kind = what.kind,
                              .dtype = what.dtype,
                              .bytes = what.bytes(),
                              .sent_bytes = bus_factor(what.kind, communicator_->size()) *
                                            static_cast<double>(what.bytes()),
                              .started_ns = now},
                      .done = std::move(done),
                      .started = queued});
}

void Collectives::join(uint32_t number) {
  const auto found = pending_.find(number);
  if (found == pending_.end()) return;
  Started& started = started_[found->second];
  pending_.erase(found);
  if (pending_.empty()) device_.leave_free(0);
  started.needed = device_.queued_work();
  started.run.needed_ns = monotonic_ns();
  const bool waits = !started.needed && !started.done->is_done();
  device_.wait_for(*started.done);  // rethrows an error of the collective
  if (waits) started.run.waited_ns = monotonic_ns() - started.run.needed_ns;
}

void Collectives::join_all() {
  while (!pending_.empty()) join(pending_.begin()->first);
}

void Collectives::drop_all() noexcept {
  for (const auto& [number, started] : pending_) try {
      started_[started].done->wait();
    } catch (...) {
      // Ignored: the caller already reports the first error.
    }
  pending_.clear();
  device_.leave_free(0);
}

std::vector<CollectiveRun> Collectives::runs() const {
  std::vector<CollectiveRun> runs;
  for (const Started& started : started_) {
    CollectiveRun run = started.run;
    if (const auto span = started.done->span()) {
      run.began_ns = span->began_ns;
      run.ended_ns = span->ended_ns;
    }
    if (started.started)
      if (const auto reached = started.started->span()) run.started_ns = reached->ended_ns;
    if (started.needed)
      if (const auto reached = started.needed->span()) {
        run.needed_ns = reached->ended_ns;
        run.waited_ns = std::max<int64_t>(0, run.ended_ns - run.needed_ns);
      }
    runs.push_back(std::move(run));
  }
  return runs;
}

}  // namespace ridgeline
