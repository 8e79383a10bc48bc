// Thread block clusters (Hopper): barriers, and access to the shared memory of other blocks.
#pragma once

namespace ridgeline {

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// Loads a number from the shared memory of block `rank` of the cluster, at the address that `here` has in this block.
__device__ __forceinline__ float load_distributed(const float* here, int rank) {
  unsigned address;
  float value;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;"
               : "=r"(address)
               : "r"(static_cast<unsigned>(__cvta_generic_to_shared(here))), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

// Arrives at the mbarrier of block `rank` at the address that `here` has in this block.
__device__ __forceinline__ void arrive_in_block(unsigned here, int rank) {
  asm volatile(
      "{.reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];}" ::"r"(here),
      "r"(rank)
      : "memory");
}

}  // namespace ridgeline
