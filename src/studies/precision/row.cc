#include "studies/precision/row.h"

#include <fmt/format.h>

#include <cmath>

#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr PrecisionPartInfo kParts[] = {
    {PrecisionPart::accumulate, "accumulate",
     "1000 x 0.01, sums, dot products and softmax: what rounding values and rounding sums costs"},
    {PrecisionPart::norm, "norm", "norms in 16 bits beside fp32, by length and magnitude"},
    {PrecisionPart::flow, "flow", "the dtype of every stage under autocast"},
    {PrecisionPart::compare, "compare", "models in full and mixed precision: times, memory, loss"},
    {PrecisionPart::training, "training",
     "a tiny model in training: fp32, bf16, fp16 with and without loss scaling"},
};

std::string_view part_name(const PrecisionWorkload& workload) {
  return kPrecisionParts[part_of(workload)].name;
}

Json workload_of(const RoundedReduction& reduction) {
  return {{"part", part_name(reduction)},
          {"op", info(reduction.op).name},
          {"value_dtype", info(reduction.values).name},
          {"accumulator_dtype", info(reduction.accumulator).name},
          {"length", reduction.length},
          {"magnitude", reduction.magnitude}};
}

void take(const ErrorParts& parts, Json& metrics) {
  metrics = {{"overflowed", parts.overflowed}};
  // JSON has no non-finite numbers, so these are left out.
  for (const auto& [name, value] : {std::pair{"result", parts.result},
                                    {"exact", parts.exact},
                                    {"total_error", parts.total},
                                    {"representation_error", parts.representation},
                                    {"accumulation_error", parts.accumulation}})
    if (std::isfinite(value)) metrics[std::string_view(name)] = value;
  if (parts.stalled_at > 0) metrics["stalled_at"] = parts.stalled_at;
}

void take(const std::vector<FlowStage>& stages, Json& metrics) {
  Json listed = Json::array();
  for (const FlowStage& stage : stages)
    listed.push_back(
        {{"stage", stage.stage}, {"tensor", stage.tensor}, {"dtype", info(stage.dtype).name}});
  metrics = {{"stages", std::move(listed)}};
}

void take(const TrainingResult& result, Json& metrics) {
  Json losses = Json::array();
  for (const double loss : result.losses)
    losses.push_back(std::isfinite(loss) ? Json(loss) : Json(nullptr));
  metrics = {{"losses", std::move(losses)}};
  if (!result.underflow) return;
  metrics["loss_scale"] = result.loss_scale.scale;
  metrics["skipped_steps"] = result.loss_scale.skipped_steps;
  metrics["underflow"] = to_json(*result.underflow);
}

}  // namespace

const Choices<PrecisionPartInfo> kPrecisionParts{"a part of the study", kParts};

PrecisionPart part_of(const PrecisionWorkload& workload) {
  if (std::holds_alternative<ModelWorkload>(workload)) return PrecisionPart::compare;
  if (std::holds_alternative<TrainingRun>(workload)) return PrecisionPart::training;
  const auto* reduction = std::get_if<RoundedReduction>(&workload);
  if (reduction == nullptr) return PrecisionPart::flow;
  return info(reduction->op).is_norm ? PrecisionPart::norm : PrecisionPart::accumulate;
}

std::string pair_name(const RoundedReduction& reduction) {
  return fmt::format("{}/{}", info(reduction.values).name, info(reduction.accumulator).name);
}

std::string label(const PrecisionWorkload& workload) {
  if (const auto* model = std::get_if<ModelWorkload>(&workload)) return label(*model);
  if (const auto* flow = std::get_if<DtypeFlow>(&workload))
    return fmt::format("{} under {} autocast", info(flow->model).name, info(flow->autocast).name);
  if (const auto* training = std::get_if<TrainingRun>(&workload))
    return fmt::format("training in {}", info(training->variant).name);
  const auto& reduction = std::get<RoundedReduction>(workload);
  return fmt::format("{} length={} magnitude={} {}", info(reduction.op).name, reduction.length,
                     reduction.magnitude, pair_name(reduction));
}

PrecisionStudy::PrecisionStudy(Device& device, ModelStudyOptions options)
    : device_(device), options_(options), models_(device, std::move(options)) {}

Record PrecisionStudy::describe(const PrecisionWorkload& workload, const Record& blank) const {
  if (const auto* model = std::get_if<ModelWorkload>(&workload)) {
    Record record = models_.describe(*model, blank);
    record.study = "precision";
    record.workload["part"] = part_name(workload);
    const AdamWOptions& optimizer = options_.optimizer;
    record.settings["optimizer"] = optimizer.variant == AdamWVariant::cs336 ? "cs336" : "pytorch";
    if (optimizer.max_norm > 0) record.settings["max_norm"] = optimizer.max_norm;
    return record;
  }
  RowIdentity identity{.study = "precision", .implementation = {}, .workload = {}};
  std::string implementation;
  if (const auto* flow = std::get_if<DtypeFlow>(&workload)) {
    implementation = fmt::format("autocast {}", info(flow->autocast).name);
    identity.workload = {{"part", part_name(workload)},
                         {"model", info(flow->model).name},
                         {"autocast", info(flow->autocast).name}};
  } else if (const auto* training = std::get_if<TrainingRun>(&workload)) {
    const TransformerConfig& model = trained_model();
    implementation = info(training->variant).name;
    identity.workload = {{"part", part_name(workload)},
                         {"precision", info(info(training->variant).precision).name},
                         {"steps", training->steps},
                         {"micro_batches", kMicroBatches},
                         {"batch_size", model.batch_size},
                         {"context_length", model.context_length},
                         {"num_params", parameter_count(model)}};
  } else {
    const auto& reduction = std::get<RoundedReduction>(workload);
    implementation = pair_name(reduction);
    identity.workload = workload_of(reduction);
  }
  identity.implementation = implementation;
  return describe_row(identity, options_.row, device_, blank);
}

double PrecisionStudy::expected_s(const PrecisionWorkload& workload,
                                  const Record& described) const {
  constexpr double kTermS = 40e-9, kFlowS = 2e-3, kTrainingStepS = 5e-3;
  if (const auto* model = std::get_if<ModelWorkload>(&workload))
    return models_.expected_s(*model, described);
  if (const auto* training = std::get_if<TrainingRun>(&workload))
    return kTrainingStepS * static_cast<double>(training->steps);
  const auto* reduction = std::get_if<RoundedReduction>(&workload);
  return reduction ? kTermS * static_cast<double>(reduction->length) : kFlowS;
}

std::optional<Record> PrecisionStudy::run(const PrecisionWorkload& workload, Record described) {
  if (const auto* model = std::get_if<ModelWorkload>(&workload))
    return models_.run(*model, std::move(described));
  return try_row(std::move(described), label(workload), [&](Record& record) {
    Json& metrics = record.metrics.emplace();
    if (const auto* flow = std::get_if<DtypeFlow>(&workload))
      return take(stages_of(*flow), metrics);
    if (const auto* training = std::get_if<TrainingRun>(&workload)) {
      TrainingRun run = *training;
      run.seed = options_.row.seed;
      return take(train(run, device_, options_.row.interrupted), metrics);
    }
    RoundedReduction reduction = std::get<RoundedReduction>(workload);
    reduction.seed = options_.row.seed;
    take(error_of(reduction), metrics);
  });
}

}  // namespace ridgeline
