// The dtype of every stage of a training step under autocast, from the graph that is compiled.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "graph/dtype.h"
#include "studies/choices.h"

namespace ridgeline {

enum class FlowModel : uint8_t { toy, transformer };

struct FlowModelInfo {
  FlowModel model;
  std::string_view name;
  std::string_view summary;
};
extern const Choices<FlowModelInfo> kFlowModels;
inline const FlowModelInfo& info(FlowModel model) {
  return kFlowModels[model];
}

struct DtypeFlow {
  FlowModel model = FlowModel::toy;
  DType autocast = DType::bf16;  // fp16 or bf16
};

struct FlowStage {
  std::string stage;   // "first linear"
  std::string tensor;  // the first of the stage, by its name in the graph
  DType dtype = DType::f32;
};
// In the order of a training step. Throws an internal error if the tensors of a stage have
// different dtypes.
std::vector<FlowStage> stages_of(const DtypeFlow& flow);

}  // namespace ridgeline
