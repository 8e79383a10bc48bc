#include "runtime/device.h"

#include "base/error.h"

namespace ridgeline {

void Device::multiply(const Product&) {
  throw Error(ErrorKind::internal, "the products of " + name() + " take no epilogue");
}

std::function<void()> Device::prepare_gemm(GemmRung rung, const GemmOperands& operands) {
  if (rung != GemmRung::library)
    throw Error(ErrorKind::unsupported, name() + " has no GEMM of its own", "use library");
  auto node = std::make_shared<Node>();
  node->op = Op::matmul;
  node->outputs = {{operands.out.dtype, operands.out.shape}};
  return [this, node, operands] {
    const TensorView inputs[] = {operands.a, operands.b}, outputs[] = {operands.out};
    run(*node, inputs, outputs);
  };
}

}  // namespace ridgeline
