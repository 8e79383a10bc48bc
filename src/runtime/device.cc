#include "runtime/device.h"

#include "base/error.h"

namespace ridgeline {

void Device::multiply(const Product&) {
  throw Error(ErrorKind::internal, "the products of " + name() + " take no epilogue");
}

}  // namespace ridgeline
