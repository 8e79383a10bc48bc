// Weights of a model in files, and clipped gradients, in rows of the transformer study.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "measure/test_support.h"
#include "models/weight_files.h"
#include "runtime/cpu_device.h"
#include "studies/model/row.h"
#include "support/tiny_transformer.h"

namespace ridgeline::model_study_test {
namespace {

namespace fs = std::filesystem;

ModelWorkload saved_workload(Mode mode, ModelPrecision precision = ModelPrecision::fp32) {
  return {.config = testing::tiny_transformer(), .precision = precision, .mode = mode};
}

class ModelWeights : public ::testing::Test {
 protected:
  Record run(const ModelWorkload& row, ModelStudyOptions options) {
    options.row.protocol = {.warmups = warmups_, .iterations = 3};
    ModelStudy study(device_, std::move(options));
    const Record record = study.run(row, study.describe(row, {})).value();
    EXPECT_EQ(record.status, Status::ok) << label(row) << ": " << record.error;
    return record;
  }
  // Three timed steps and those before them.
  Record save(const fs::path& path, const ModelWorkload& row, ModelStudyOptions options = {}) {
    options.scenarios = {Scenario::full_step};
    options.save_weights = path;
    return run(row, options);
  }
  static std::vector<float> weights_in(const fs::path& path) {
    std::vector<float> all;
    load_weights(path, transformer_parameters(testing::tiny_transformer()),
                 [&](const Parameter&, std::span<const float> values) {
                   all.insert(all.end(), values.begin(), values.end());
                 });
    return all;
  }
  static double loss(const Record& record, const char* series) {
    return record.metrics.value()[series]["loss"].get<double>();
  }
  static double error_of(const Record& record, const std::string& name) {
    for (const TensorError& tensor : record.verification.tensors)
      if (tensor.name == name) return tensor.max_error;
    return std::nan("");
  }

  TempDir directory_;
  CpuDevice device_{{.threads = 2,
                     .ledger = {.budget = Bytes{64 << 20}},
                     .compiler = {.cache_dir = directory_ / "kernels"}}};
  int warmups_ = 1;
};

TEST_F(ModelWeights, ATrainedModelGoesOnWhereItWasSaved) {
  const fs::path file = directory_ / "trained.safetensors";
  for (const Mode mode : {Mode::vanilla, Mode::compiled})
    for (const ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed}) {
      const ModelWorkload row = saved_workload(mode, precision);
      const double before = loss(save(file, row), "full_step");
      EXPECT_EQ(SafetensorsFile(file).header().metadata.at("steps"), "5");  // one is looked at
      // The study's own check: compiled agrees with vanilla from these weights, too.
      const Record after = run(row, {.weights = file});
      EXPECT_LT(loss(after, "full_step"), before - 0.01) << label(row);
      EXPECT_TRUE(std::isnan(error_of(after, "forward.initial_loss"))) << "of drawn weights only";
    }
}

TEST_F(ModelWeights, BothModesSaveTheSameWeightsUpToRounding) {
  save(directory_ / "vanilla", saved_workload(Mode::vanilla));
  save(directory_ / "compiled", saved_workload(Mode::compiled));
  const std::vector<float> vanilla = weights_in(directory_ / "vanilla");
  const std::vector<float> compiled = weights_in(directory_ / "compiled");
  ASSERT_EQ(vanilla.size(), compiled.size());
  for (size_t i = 0; i < vanilla.size(); ++i) ASSERT_NEAR(vanilla[i], compiled[i], 1e-4) << i;
}

// Without warm-ups the step that is looked at comes after the samples, from the beginning again.
TEST_F(ModelWeights, WhatIsSavedIsNotWhatVerificationLeft) {
  warmups_ = 0;
  const ModelWorkload row = saved_workload(Mode::vanilla);
  save(directory_ / "checked", row, {.row = {.verify = true}});
  EXPECT_EQ(SafetensorsFile(directory_ / "checked").header().metadata.at("steps"), "3");
  save(directory_ / "unchecked", row, {.row = {.verify = false}});
  EXPECT_EQ(weights_in(directory_ / "checked"), weights_in(directory_ / "unchecked"));
}

TEST_F(ModelWeights, FilesOfOtherModelsAreRefused) {
  const fs::path file = directory_ / "tiny.safetensors";
  save(file, saved_workload(Mode::vanilla));
  TransformerConfig config = testing::tiny_transformer();
  EXPECT_NO_THROW(check_model_weights(file, config));
  config.context_length *= 2;
  config.batch_size = 1;
  EXPECT_NO_THROW(check_model_weights(file, config)) << "weights know neither";
  config.heads = 4;
  EXPECT_ERROR(check_model_weights(file, config), ErrorKind::usage, "2 heads, expected 4");
  config = testing::tiny_transformer();
  config.d_ff = 64;
  EXPECT_ERROR(check_model_weights(file, config), ErrorKind::usage, "as [48, 32], expected [64");
  config = testing::tiny_transformer();
  config.layers = 3;
  EXPECT_ERROR(check_model_weights(file, config), ErrorKind::usage, "no tensor 'layers.2.");
  config.layers = 1;
  EXPECT_ERROR(check_model_weights(file, config), ErrorKind::usage, "the model has no 'layers.1.");
}

TEST_F(ModelWeights, ClippedRowsAreVerifiedAndAsLargeAsPredicted) {
  constexpr double kBelowTheNorm = 0.05;
  for (const ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed})
    for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
      // Compiled alone takes its vanilla run for this.
      const Record record =
          run(saved_workload(mode, precision), {.optimizer = {.max_norm = kBelowTheNorm}});
      for (const ScenarioInfo& scenario : kModelScenarios) {
        const Json& of = record.metrics.value()[std::string(scenario.series)];
        EXPECT_EQ(of["peak_bytes"], of["predicted_peak_bytes"]) << scenario.name;
      }
      for (const char* name :
           {"fwd_bwd.gradients", "full_step.gradients", "full_step.gradient_norm"})
        EXPECT_EQ(std::isnan(error_of(record, name)), mode == Mode::vanilla) << name;
    }
}

TEST_F(ModelWeights, WeightsThatAreNanAreWrongInEveryScenarioAndAreNotSaved) {
  const fs::path nan = directory_ / "nan", saved = directory_ / "saved";
  save_weights(nan, transformer_parameters(testing::tiny_transformer()),
               [](const Parameter& parameter) {
                 return std::vector<float>(static_cast<size_t>(element_count(parameter.shape)),
                                           std::nanf(""));
               },
               {{"heads", "2"}});
  for (const ScenarioInfo& scenario : kModelScenarios)
    for (const bool verify : {true, false}) {
      if (!verify && scenario.scenario != Scenario::full_step) continue;
      ModelStudy study(
          device_, {.row = {.protocol = {.warmups = warmups_, .iterations = 1}, .verify = verify},
                    .scenarios = {scenario.scenario},
                    .weights = nan,
                    .save_weights = saved});
      const ModelWorkload row = saved_workload(Mode::vanilla);
      const Record record = study.run(row, study.describe(row, {})).value();
      EXPECT_EQ(record.status, Status::wrong) << scenario.name;
      EXPECT_HAS(record.error, "is not finite");
      EXPECT_FALSE(fs::exists(saved));
    }
}

TEST_F(ModelWeights, AWrongNormIsWrong) {
  const ModelWorkload row = saved_workload(Mode::compiled);
  const ModelSample right{.loss = 4, .gradients = {{"a", {1, 2}}}, .gradient_norm = 2};
  ModelSample wrong = right;
  wrong.gradient_norm = 2.01;
  for (const auto& [sample, is_right] : {std::pair{right, true}, {wrong, false}}) {
    Verification verification;
    compare_samples(row, Scenario::full_step, sample, right, verification);
    const auto norm =
        std::ranges::find(verification.tensors, "full_step.gradient_norm", &TensorError::name);
    ASSERT_NE(norm, verification.tensors.end());
    EXPECT_EQ(norm->max_error <= norm->tolerance, is_right);
  }
}

}  // namespace
}  // namespace ridgeline::model_study_test
