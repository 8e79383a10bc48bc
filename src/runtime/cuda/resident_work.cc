// Resident kernels on a GPU: uploads their tables and words, and launches them.

#include "kernels/cuda/resident/resident.h"
#include "runtime/cuda/cuda_device.h"

namespace ridgeline {
namespace {

TensorView bytes_view(const Allocation& memory) {
  const Shape shape{memory.bytes().count};
  return {memory.data(), DType::boolean, shape, contiguous_strides(shape)};
}

}  // namespace

ResidentWork CudaDevice::prepare_resident(const Graph& graph, const Plan& plan,
                                          const ResidentPlan& resident,
                                          const std::function<void*(Value)>& address,
                                          std::string& why) {
  std::optional<CudaResident> planned = plan_resident(graph, plan, resident, facts_, address, why);
  if (!planned) return nullptr;
  kernels_.load({&planned->launch.kernel, 1});
  std::vector<Allocation> memory;
  const auto store = [&](const char* name, const void* from, size_t bytes) {
    memory.push_back(ledger_.allocate(Bytes{static_cast<int64_t>(bytes)}, name));
    upload(bytes_view(memory.back()), from);
    return memory.back().data();
  };
  const std::vector<uint64_t> words(static_cast<size_t>(planned->words) + 1);
  const ResidentStep& last = resident.steps.back();
  ResidentParams params{};
  params.items = static_cast<const ResidentItem*>(
      store("resident steps", planned->items.data(), planned->items.size() * sizeof(ResidentItem)));
  params.vectors =
      static_cast<const ResidentVector*>(store("resident vectors", planned->vectors.data(),
                                               planned->vectors.size() * sizeof(ResidentVector)));
  params.words = static_cast<unsigned long long*>(
      store("resident words", words.data(), words.size() * sizeof(uint64_t)));
  params.turn = reinterpret_cast<unsigned*>(params.words + planned->words);
  if (resident.position) params.position = static_cast<int*>(address(*resident.position));
  params.advance = static_cast<int>(resident.advance);
  for (size_t i = 0; i < resident.stores.size(); ++i)
    params.targets[i] = {static_cast<int*>(address(resident.stores[i].to)),
                         static_cast<int>(resident.stores[i].slots)};
  if (last.stored) params.logits = address(*last.stored);
  if (last.largest) params.largest = static_cast<int*>(address(*last.largest));
  return [this, launch = std::move(planned->launch), params,
          held = std::make_shared<std::vector<Allocation>>(std::move(memory))](int turns) mutable {
    params.turns = turns;
    launch.set_params(params);
    this->launch(launch);
  };
}

}  // namespace ridgeline
