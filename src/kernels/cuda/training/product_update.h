// AdamW on parameters whose gradients are products that the kernel computes itself
// (product_update.cu).
#pragma once

#include <span>
#include <vector>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/params.h"
#include "plan/product_size.h"

namespace ridgeline {

// Whether one kernel with these products is faster than library products and an update.
bool prefers_update_products(std::span<const ProductSize> products, const CudaFacts& device);

// Plans the update of the parameters of an adamw_update node whose gradients are products.
std::vector<CudaLaunch> plan_product_updates(const CudaCall& call, const AdamWNumbers& numbers);

}  // namespace ridgeline
