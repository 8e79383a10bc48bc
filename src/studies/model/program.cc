#include "studies/model/program.h"

#include "studies/attention/workload.h"

namespace ridgeline {

AdamWOptions optimizer_of(const ModelWorkload& workload, AdamWOptions optimizer) {
  if (!info(workload.precision).scales_loss)
    optimizer.loss_scaling.reset();
  else if (!optimizer.loss_scaling)
    optimizer.loss_scaling.emplace();
  return optimizer;
}

Trace model_trace(const ModelWorkload& workload, Scenario scenario, const AdamWOptions& wanted) {
  return [=, config = workload.config, micro_batches = workload.micro_batches,
          optimizer = optimizer_of(workload, wanted)](const Rewrite& forward) {
    return training_graph(config, {.scenario = scenario,
                                   .attention = AttentionForm::plain,
                                   .optimizer = optimizer,
                                   .micro_batches = micro_batches,
                                   .forward_pass = forward});
  };
}

CompileOptions model_options(const ModelWorkload& workload) {
  CompileOptions options{.mode = workload.mode, .checkpoint_blocks = workload.checkpoint_blocks};
  if (const DType products = info(workload.precision).products; products != DType::f32)
    options.products = products;
  return options;
}

CompileOptions model_options(const ModelWorkload& workload, const Device& device) {
  CompileOptions options = model_options(workload);
  options.backward = backward_algorithm({}, device.facts());
  return options;
}

Scenario scenario_of(const Executable& executable) {
  if (executable.has_output("logits")) return Scenario::forward;
  return executable.has_input("optimizer.scalars") ? Scenario::full_step
                                                   : Scenario::forward_backward;
}

ModelMemory model_memory(const Executable& executable) {
  const Plan* plan = executable.plan();
  ModelMemory memory =
      plan ? account_model(executable.graph(), *plan)
           : account_model(executable.graph(), *executable.schedule(), *executable.profile());
  memory.recomputed = executable.recomputed();
  return memory;
}

}  // namespace ridgeline
