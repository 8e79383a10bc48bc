#include "runtime/cuda/movable_launches.h"

#include <cstring>

#include "base/error.h"

namespace ridgeline {
namespace {

// The tag of placeholder addresses. Other parameters are non-negative sizes and strides, masks from
// -2^30 up and scales, so that none of them has these upper bits.
constexpr uint64_t kStandIn = 0x9A5C'0000'0000'0000;
constexpr int kTensorShift = 40;  // a tensor has up to 2^40 bytes
constexpr uint64_t kTagMask = 0xFFFF'0000'0000'0000;

uint64_t stand_in(size_t tensor, const void* address) {
  return kStandIn + (static_cast<uint64_t>(tensor) << kTensorShift) +
         reinterpret_cast<uintptr_t>(address) % kAddressUnit;
}

std::vector<TensorView> moved(std::span<const TensorView> views, size_t first) {
  std::vector<TensorView> all(views.begin(), views.end());
  for (size_t i = 0; i < all.size(); ++i)
    all[i].data = reinterpret_cast<void*>(stand_in(first + i, all[i].data));
  return all;
}

bool equal(const CudaLaunch& a, const CudaLaunch& b) {
  return a.kernel == b.kernel && a.grid == b.grid && a.threads == b.threads &&
         a.shared_bytes == b.shared_bytes && a.params == b.params && a.boxed == b.boxed;
}

}  // namespace

void MovableLaunches::move_to(std::span<void* const> addresses) {
  for (const AddressSlot& slot : slots) {
    const uint64_t address = reinterpret_cast<uintptr_t>(addresses[slot.tensor]) + slot.behind;
    std::memcpy(launches[slot.launch].params.data() + slot.offset, &address, sizeof address);
  }
}

MovableLaunches plan_movable(std::span<const TensorView> inputs,
                             std::span<const TensorView> outputs, void* scratch,
                             const LaunchPlanner& plan) {
  std::vector<void*> addresses;
  for (std::span<const TensorView> views : {inputs, outputs})
    for (const TensorView& view : views) addresses.push_back(view.data);
  addresses.push_back(scratch);

  MovableLaunches result;
  result.launches =
      plan(moved(inputs, 0), moved(outputs, inputs.size()),
           scratch == nullptr ? nullptr
                              : reinterpret_cast<void*>(stand_in(addresses.size() - 1, scratch)));
  for (uint32_t number = 0; number < result.launches.size(); ++number) {
    const std::vector<std::byte>& params = result.launches[number].params;
    for (uint32_t offset = 0; offset + sizeof(uint64_t) <= params.size();
         offset += sizeof(uint64_t)) {
      uint64_t value = 0;
      std::memcpy(&value, params.data() + offset, sizeof value);
      const uint64_t tensor = (value & ~kTagMask) >> kTensorShift;
      if ((value & kTagMask) != kStandIn || tensor >= addresses.size()) continue;
      result.slots.push_back({number, offset, static_cast<uint32_t>(tensor),
                              value - stand_in(tensor, addresses[tensor])});
    }
  }
  result.move_to(addresses);

  const std::vector<CudaLaunch> fresh = plan(inputs, outputs, scratch);
  bool same = fresh.size() == result.launches.size();
  for (size_t i = 0; same && i < fresh.size(); ++i) same = equal(fresh[i], result.launches[i]);
  if (!same)
    throw Error(ErrorKind::internal, "launches depend on addresses in an unknown way",
                "report this as a bug, with the shapes");
  return result;
}

}  // namespace ridgeline
