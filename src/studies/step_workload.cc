#include "studies/step_workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/closest.h"
#include "base/error.h"
#include "base/print.h"
#include "base/sort_by.h"
#include "studies/attention/workload.h"
#include "studies/host_tensors.h"
#include "studies/model/metrics.h"
#include "studies/model/program.h"
#include "studies/peers/implementations.h"

namespace ridgeline {
namespace {

constexpr const char* kAttention = "--attention";

const AttentionConfig* attention_of(const StepWorkload& workload) {
  return std::get_if<AttentionConfig>(&workload.of);
}

// One of our modes, or a peer. Modes come in the ladder's order, then peers in that of --impl.
struct Runner {
  Mode mode = Mode::vanilla;
  std::string peer = {};
};

std::span<const PeerImplementation> peers_of(const StepAxes& axes) {
  if (!axes.takes_peers) return {};
  return (axes.attention ? kAttentionPeers : kModelPeers).rows;
}

Mode mode_named(const StepAxes& axes, const std::string& name) {
  const std::string wanted = axes.attention && name == "naive" ? "vanilla" : name;
  for (const ModeInfo& mode : modes())
    if (mode.name == wanted) return mode.mode;
  KnownNames known{.what = "a mode", .names = names_of(modes())};
  if (axes.takes_peers)
    known.what = axes.attention ? "a mode or another library's attention"
                                : "a mode or another library's model";
  for (const PeerImplementation& peer : peers_of(axes)) known.names.emplace_back(peer.name);
  throw unknown_name(name, known);
}

std::vector<Runner> runners_of(const StepAxes& axes) {
  std::vector<Mode> own;
  std::vector<Runner> others;
  for (const std::string& name : axes.model.modes) {
    if (std::ranges::find(peers_of(axes), name, &PeerImplementation::name) == peers_of(axes).end())
      own.push_back(mode_named(axes, name));
    else if (std::ranges::find(others, name, &Runner::peer) == others.end())
      others.push_back({.peer = name});
  }
  std::vector<Runner> runners;
  for (const Mode mode : distinct(std::move(own))) runners.push_back({.mode = mode});
  runners.insert(runners.end(), others.begin(), others.end());
  return runners;
}

std::vector<StepWorkload> attention_workloads(const StepAxes& axes) {
  constexpr int64_t kBatchSize = 8;
  std::vector<Scenario> scenarios = {Scenario::forward_backward};
  if (axes.gave_scenarios) scenarios = scenarios_of(axes.model);
  if (std::ranges::count(scenarios, Scenario::full_step))
    throw Error(ErrorKind::usage, "attention has no parameters, and so no full-step",
                "use --scenario forward or fwd-bwd");
  const ModelOverrides& sizes = axes.model.overrides;
  const std::vector<int64_t> head_dims =
      sizes.d_model > 0 ? std::vector{sizes.d_model} : axes.head_dims;
  std::vector<StepWorkload> workloads;
  for (const std::string& dtype : axes.dtypes)
    for (const int64_t head_dim : head_dims)
      for (const int64_t seq_len : axes.seq_lens)
        for (const Scenario scenario : scenarios)
          for (const Runner& runner : runners_of(axes))
            workloads.push_back(
                {AttentionConfig{
                     .batch_size = axes.gave_batch_size ? axes.model.batch_size : kBatchSize,
                     .heads = std::max<int64_t>(1, sizes.heads),
                     .seq_len = seq_len,
                     .head_dim = head_dim,
                     .causal = axes.causal,
                     .dtype = parse_float_dtype(dtype)},
                 runner.mode, scenario, runner.peer});
  return workloads;
}

}  // namespace

Json workload_json(const StepWorkload& workload) {
  const AttentionConfig* attention = attention_of(workload);
  Json json = {{"of", attention ? "attention" : "model"}};
  json.update(attention ? workload_json(*attention)
                        : workload_json(std::get<ModelWorkload>(workload.of)));
  json["scenario"] = info(workload.scenario).name;
  return json;
}

std::string label(const StepWorkload& workload) {
  const std::string_view scenario = info(workload.scenario).name,
                         implementation = workload.implementation();
  if (const AttentionConfig* config = attention_of(workload))
    return fmt::format(
        "attention S={} d={} batch={}{} {}{} {}, {}", config->seq_len, config->head_dim,
        config->batch_size, config->heads > 1 ? fmt::format(" heads={}", config->heads) : "",
        info(config->dtype).name, config->causal ? " causal" : "", scenario, implementation);
  const auto& model = std::get<ModelWorkload>(workload.of);
  return fmt::format("{} context={} batch={} {} {}, {}", model.config.name,
                     model.config.context_length, model.config.batch_size,
                     info(model.precision).name, scenario, implementation);
}

std::string file_name(const StepWorkload& workload) {
  std::string name;
  for (const char c : label(workload)) {
    const bool is_plain = std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '.';
    if (is_plain || (!name.empty() && name.back() != '_')) name += is_plain ? c : '_';
  }
  return name;
}

Trace step_trace(const StepWorkload& workload, const AdamWOptions& optimizer) {
  if (const AttentionConfig* config = attention_of(workload))
    return [config = *config](const Rewrite& forward) {
      return attention_training_graph(config, AttentionForm::plain, forward);
    };
  return model_trace(std::get<ModelWorkload>(workload.of), workload.scenario, optimizer);
}

CompileOptions step_options(const StepWorkload& workload, const Device& device) {
  CompileOptions options{.mode = workload.mode};
  if (attention_of(workload))
    options.backward = backward_algorithm({}, device.facts());
  else
    options = model_options(std::get<ModelWorkload>(workload.of), device);
  options.message = say_once;
  return options;
}

// The optimizer stays at its first step: uploading scalars between steps would add copies that
// belong to no kernel.
void fill_inputs(const StepWorkload& workload, Executable& executable, ModelInputs& of_models,
                 const InputSource& from) {
  if (const auto* model = std::get_if<ModelWorkload>(&workload.of)) {
    of_models.fill(executable, model->config);
    of_models.set_step(executable, 1, from.optimizer);
    return;
  }
  const Graph& graph = executable.graph();
  for (const Value value : graph.inputs())
    fill_randomly(from.device, executable.input(graph.name(value)), from.seed, graph.name(value));
}

double step_flops(const StepWorkload& workload) {
  const AttentionConfig* config = attention_of(workload);
  if (!config) return model_flops(std::get<ModelWorkload>(workload.of).config, workload.scenario);
  return attention_flops(*config) *
         (workload.scenario == Scenario::forward ? 1 : 1 + kBackwardOverForward);
}

void add_step_axes(Flags& flags, StepAxes* axes) {
  add_model_axes(flags, &axes->model);
  for (const char* name : {"--model-size", "--context-length", "--precision", "--optimizer",
                           "--max-norm", "--loss-scale", "--d-ff", "--layers", "--vocabulary",
                           "--accumulate", "--checkpoint-blocks"})
    flags.at(name).rules.excludes = {kAttention};
  Flag& scenario = flags.at("--scenario");
  scenario.help += "; of attention fwd-bwd unless given";
  scenario.rules.given = &axes->gave_scenarios;
  Flag& batch_size = flags.at("--batch-size");
  batch_size.help += "; of attention 8 unless given";
  batch_size.rules.given = &axes->gave_batch_size;
  flags.at("--d-model").help = "width of the residual stream; of attention as --head-dim";
  flags.at("--heads").help = "number of heads; of attention 1 unless given";
  Flag& implementations = flags.at("--impl");
  implementations.help += "; other libraries as --list has them";
  for (const PeerImplementation& peer : kModelPeers)
    implementations.rules.choices.emplace_back(peer.name);
  for (const PeerImplementation& peer : kAttentionPeers)
    if (!kModelPeers.find(peer.name)) implementations.rules.choices.emplace_back(peer.name);
  flags.add(kAttention, &axes->attention, "attention by itself instead of whole models");
  flags.add("--seq-len", &axes->seq_lens, "sequence lengths of attention",
            {.shows_default = true, .needs = {kAttention}});
  flags.add("--head-dim", &axes->head_dims, "width of one head of attention",
            {.shows_default = true, .needs = {kAttention}, .excludes = {"--d-model"}});
  add_causal(flags, &axes->causal).rules.needs = {kAttention};
  add_dtypes(flags, &axes->dtypes).rules.needs = {kAttention};
}

std::vector<StepWorkload> workloads_of(const StepAxes& axes) {
  if (axes.attention) return attention_workloads(axes);
  const std::vector<Runner> runners = runners_of(axes);
  for (const Runner& runner : runners)
    if (!runner.peer.empty() && (axes.model.micro_batches > 1 || axes.model.checkpoint_blocks > 0))
      throw Error(ErrorKind::usage,
                  fmt::format("--accumulate and --checkpoint-blocks are about our own steps, and "
                              "--impl {} is another library's",
                              runner.peer),
                  "leave one of them out");
  ModelAxes models = axes.model;
  models.modes = {std::string(info(Mode::vanilla).name)};
  std::vector<StepWorkload> workloads;
  for (ModelWorkload& model : workloads_of(models))
    for (const Scenario scenario : scenarios_of(axes.model))
      for (const Runner& runner : runners) {
        model.mode = runner.mode;
        workloads.push_back({model, runner.mode, scenario, runner.peer});
      }
  return workloads;
}

FileDescriptor check_file_of_one_row(const std::vector<StepWorkload>& workloads, const char* flag,
                                     const std::string& path) {
  if (workloads.size() > 1)
    throw Error(
        ErrorKind::usage,
        fmt::format("{} rows would write their {} to '{}', from '{}' to '{}'", workloads.size(),
                    flag + 2, path, label(workloads.front()), label(workloads.back())),
        fmt::format("name one size, --scenario and --impl, or leave {} out: each row then "
                    "has a file of its own in the results folder",
                    flag));
  return check_writable(path);
}

std::string to_command(const StepAxes& axes, const StepWorkload& workload) {
  if (const AttentionConfig* config = attention_of(workload))
    return fmt::format(
        " --batch-size {} --heads {} --head-dim {} --seq-len {} --dtype {}{} "
        "--scenario {} --impl {}",
        config->batch_size, config->heads, config->head_dim, config->seq_len,
        info(config->dtype).name, config->causal ? " --causal" : "", info(workload.scenario).name,
        workload.implementation());
  ModelAxes one = axes.model;
  one.scenarios = {std::string(info(workload.scenario).name)};
  if (workload.scenario != Scenario::full_step) one.max_norm = 0;
  const auto& model = std::get<ModelWorkload>(workload.of);
  return to_command(one, model.precision) + to_command(model, workload.implementation());
}

}  // namespace ridgeline
