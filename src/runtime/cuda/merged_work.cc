// Neighbouring kernels of a plan by one launch: the fastest of its ways.
#include <fmt/format.h>

#include "kernels/cuda/merged/merged.h"
#include "runtime/cuda/cold_clock.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline {
namespace {

constexpr double kLaunchMs = 0.002;  // of a kernel that waits for the one before it

class CudaMergedWork : public MergedWork {
 public:
  CudaMergedWork(CudaQueue& queue, KernelStore& kernels, CudaLaunch launch)
      : queue_(queue), kernels_(kernels), launch_(std::move(launch)) {}
  void run() override {
    queue_.make_current();
    kernels_.run(launch_);
  }

 private:
  CudaQueue& queue_;
  KernelStore& kernels_;
  CudaLaunch launch_;
};

}  // namespace

std::unique_ptr<MergedWork> CudaDevice::prepare_merged(
    const Graph& graph, const Plan& plan, const Merge& merge,
    const std::function<TensorView(Value)>& view) {
  queue_.make_current();
  const std::vector<CudaLaunch> ways = plan_merged(graph, plan, merge, facts_, view);
  if (ways.empty()) return nullptr;
  // Layers have the same text and the same sizes.
  std::string key = ways[0].kernel.entry;
  for (const CudaLaunch& way : ways)
    key += fmt::format(" {} {}", way.grid[0] * way.grid[1], way.shared_bytes);
  const auto [known, is_new] = merged_ways_.try_emplace(key, 0);
  // What a product alone and the kernel behind it would take: the launch of one costs as much.
  const bool is_followed_only = merge.kind == Merge::Kind::product && merge.before.empty();
  if (is_new && (ways.size() > 1 || is_followed_only) && !deterministic_) {
    std::vector<CudaKernel> texts;
    for (const CudaLaunch& way : ways) texts.push_back(way.kernel);
    kernels_.load(texts);
    const SetupClock::Scope setup(queue_.setup());
    const ColdClock clock(queue_, facts_.l2_bytes);
    double best = clock.best_ms([&] { kernels_.run(ways[0]); });
    for (size_t i = 1; i < ways.size(); ++i)
      if (const double ms = clock.best_ms([&] { kernels_.run(ways[i]); }); ms < best) {
        best = ms;
        known->second = i;
      }
    if (is_followed_only) {
      const Group& group = plan.kernels[merge.main].group;
      const Node& node = graph.nodes()[group.node];
      const Product alone{.a = view(node.inputs[0]),
                          .b = view(node.inputs[1]),
                          .out = view(group.into.value_or(Value{group.node, 0}))};
      matmul_.run(alone);  // chooses how
      if (clock.best_ms([&] { matmul_.run(alone); }) + kLaunchMs < best)
        known->second = ways.size();
    }
  }
  if (known->second == ways.size()) return nullptr;
  const CudaLaunch& chosen = ways[known->second];
  kernels_.load({&chosen.kernel, 1});
  return std::make_unique<CudaMergedWork>(queue_, kernels_, chosen);
}

}  // namespace ridgeline
