// ridgeline facts: commands and flags, GPU data sheets and model sizes as JSON, so that the Python
// package needs no copy of them.
#include "base/json.h"
#include "base/print.h"
#include "cli/build_facts.h"
#include "cli/command_tree.h"
#include "cli/commands.h"
#include "cost/device_specs.h"
#include "models/gemma3_config.h"
#include "models/transformer_lm.h"

namespace ridgeline {
namespace {

Json command_json(const CommandFacts& command) {
  Json options = Json::array();
  for (const OptionFacts& option : command.options)
    options.push_back({{"names", option.names},
                       {"positional", option.positional},
                       {"description", option.description},
                       {"takes_value", option.takes_value()},
                       {"many", option.many},
                       {"default", option.default_value},
                       {"choices", option.choices}});
  return {{"description", command.description}, {"options", options}};
}

Json gpu_json(const GpuSpec& spec) {
  Json tflops = Json::object();
  for (const char* dtype : {"fp16", "bf16", "tf32", "fp32", "fp8"})
    if (const double dense = dense_tflops(spec, dtype); dense > 0) tflops[dtype] = dense;
  return {{"name", spec.name},
          {"typed_name", typed_name(spec)},
          {"dense_tflops", tflops},
          {"gb_per_s", spec.gigabytes_per_s},
          {"memory_gb", spec.memory_gigabytes}};
}

Json transformer_json(const TransformerConfig& config) {
  return {{"d_model", config.d_model},          {"d_ff", config.d_ff},
          {"num_layers", config.layers},        {"num_heads", config.heads},
          {"vocab_size", config.vocabulary},    {"rope_theta", config.rope_theta},
          {"norm_epsilon", config.norm_epsilon}};
}

}  // namespace

Run add_facts_command(CLI::App& app) {
  app.add_subcommand("facts", "commands, flags, data sheets and models as JSON")->group("");
  return [&app] {
    Json commands = Json::object(), gpus = Json::array(), gemma3 = Json::object(),
         transformers = Json::object();
    for (const CommandFacts& command : program_facts(app).commands)
      commands[command.name] = command_json(command);
    for (const GpuSpec& spec : gpu_specs()) gpus.push_back(gpu_json(spec));
    for (const Gemma3Config& config : gemma3_sizes())
      gemma3[config.name] = gemma3_config_json(config);
    for (const TransformerConfig& config : transformer_sizes())
      transformers[config.name] = transformer_json(config);
    const Json facts = {{"version", build_facts().version},
                        {"commands", commands},
                        {"gpus", gpus},
                        {"gemma3", gemma3},
                        {"transformers", transformers}};
    print("{}\n", facts.dump(1));
    return 0;
  };
}

}  // namespace ridgeline
