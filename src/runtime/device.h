// What the executors need of a device: memory, and a kernel for every op.
#pragma once

#include <memory>
#include <span>
#include <string>

#include "graph/graph.h"
#include "kernels/tensor_view.h"
#include "runtime/ledger.h"

namespace ridgeline {

class Device {
 public:
  virtual ~Device() = default;

  virtual std::string name() const = 0;         // "cpu"
  virtual std::string description() const = 0;  // for people: threads, instruction set, libraries
  virtual int threads() const = 0;
  virtual Ledger& ledger() = 0;
  virtual const Ledger& ledger() const = 0;

  // Starts the kernel of a node; a device with a queue of its own may return before it has run.
  virtual void run(const Node& node, std::span<const TensorView> inputs,
                   std::span<const TensorView> outputs) = 0;
  virtual void synchronize() = 0;
  // Fills memory with a pattern that reads as NaN, so that what a kernel left unwritten shows.
  virtual void poison(const TensorView& view) = 0;                    // contiguous
  virtual void upload(const TensorView& to, const void* from) = 0;    // contiguous
  virtual void download(const TensorView& from, void* to) const = 0;  // contiguous
};

}  // namespace ridgeline
