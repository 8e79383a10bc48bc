// Rows of the transformer study, in small, on the CPU.
#include "studies/model/row.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <set>

#include "measure/test_support.h"
#include "runtime/cpu_device.h"
#include "studies/attention/verify.h"
#include "studies/host_tensors.h"
#include "studies/row.h"
#include "support/models.h"
#include "support/planted_faults.h"
#include "support/tiny_transformer.h"

namespace ridgeline::model_study_test {
namespace {

Record blank() {
  Record record;
  record.machine = collect_machine_facts();
  return record;
}

ModelWorkload workload(Mode mode, ModelPrecision precision = ModelPrecision::fp32) {
  return {testing::tiny_transformer(), precision, mode};
}

CpuOptions two_threads(Bytes budget = Bytes{64 << 20}) {
  return {.threads = 2, .ledger = {.budget = budget}, .compiler = {.cache_dir = "off"}};
}

ModelStudyOptions quick() {
  return {.row = {.protocol = {.warmups = 1, .iterations = 3}}};
}

Record run_row(ModelStudy& study, const ModelWorkload& row) {
  return study.run(row, study.describe(row, blank())).value();
}

std::set<std::string> checked_tensors(const Record& record) {
  std::set<std::string> names;
  for (const TensorError& tensor : record.verification.tensors) names.insert(tensor.name);
  return names;
}

TEST(ModelStudy, EveryModeAndPrecisionIsMeasuredVerifiedAndAsLargeAsPredicted) {
  CpuDevice device(two_threads());
  ModelStudy study(device, quick());
  for (const ModelPrecision precision :
       {ModelPrecision::fp32, ModelPrecision::mixed, ModelPrecision::mixed_fp16})
    for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
      const ModelWorkload row = workload(mode, precision);
      const Record record = run_row(study, row);
      ASSERT_EQ(record.status, Status::ok) << label(row) << ": " << record.error;
      EXPECT_EQ(device.ledger().live(), Bytes{0});
      for (const ScenarioInfo& scenario : kModelScenarios) {
        ASSERT_NE(record.find_series(scenario.series), nullptr);
        EXPECT_EQ(record.find_series(scenario.series)->samples_ms.size(), 3u);
        const Json& of = record.metrics.value()[std::string(scenario.series)];
        EXPECT_EQ(of["peak_bytes"], of["predicted_peak_bytes"])
            << label(row) << " " << scenario.name;
      }
      EXPECT_EQ(record.memory.peak, record.memory.predicted_peak);
      EXPECT_EQ(record.memory.predicted_peak, study.predicted_peak(row));
      const auto checked = checked_tensors(record);
      for (const char* name :
           {"forward.initial_loss", "fwd_bwd.initial_loss", "full_step.initial_loss",
            "forward.kernels", "fwd_bwd.kernels", "full_step.kernels", "full_step.optimizer",
            "full_step.optimizer_settings"})
        EXPECT_TRUE(checked.contains(name)) << name;
      for (const char* name : {"forward.loss", "forward.logits", "fwd_bwd.loss",
                               "fwd_bwd.gradients", "full_step.loss", "full_step.gradients"})
        EXPECT_EQ(checked.contains(name), mode == Mode::compiled) << name;
    }
}

TEST(ModelStudy, BackwardAloneIsAPartOfTheSameStep) {
  CpuDevice device(two_threads());
  ModelStudyOptions options = quick();
  options.scenarios = {Scenario::forward_backward};
  ModelStudy study(device, options);
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    const Record record = run_row(study, workload(mode));
    ASSERT_EQ(record.status, Status::ok) << record.error;
    ASSERT_EQ(record.series.size(), 2u);
    const Series &whole = record.series[0], &backward = record.series[1];
    EXPECT_EQ(whole.name, "fwd_bwd");
    EXPECT_EQ(backward.name, "backward");
    ASSERT_EQ(backward.samples_ms.size(), 3u);
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_GT(backward.samples_ms[i], 0);
      EXPECT_LT(backward.samples_ms[i], whole.samples_ms[i]);
    }
  }
}

// A CPU that reports a busy time of 1 ms for whatever it is given.
class BusyCpu : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  std::optional<double> busy_ms(const std::function<void()>& work) override {
    work();
    return 1;
  }
};

TEST(ModelStudy, BusyTimeOfBackwardIsThatOfAllMicroBatches) {
  BusyCpu device(two_threads());
  ModelStudyOptions options = quick();
  options.scenarios = {Scenario::forward_backward};
  ModelStudy study(device, options);
  ModelWorkload row = workload(Mode::vanilla);
  row.config.batch_size = 4;
  row.micro_batches = 4;
  const Record record = run_row(study, row);
  ASSERT_EQ(record.status, Status::ok) << record.error;
  EXPECT_EQ(record.metrics.value()["backward"]["busy_ms"], 4);
  EXPECT_EQ(record.metrics.value()["fwd_bwd"]["busy_ms"], 1);
}

TEST(ModelStudy, CompiledTakesFewerLaunchesAndLessMemoryThanVanilla) {
  CpuDevice device(two_threads());
  ModelStudyOptions options = quick();
  options.scenarios = {Scenario::full_step};
  ModelStudy study(device, options);
  const Record vanilla = run_row(study, workload(Mode::vanilla));
  const Record compiled = run_row(study, workload(Mode::compiled));
  const Json& before = vanilla.metrics.value()["full_step"];
  const Json& after = compiled.metrics.value()["full_step"];
  EXPECT_LT(after["launches"].get<int>(), before["launches"].get<int>());
  EXPECT_LT(after["launches"].get<int>(), after["eager_launches"].get<int>());
  EXPECT_LT(compiled.memory.peak, vanilla.memory.peak);
  EXPECT_GT(after["compile_seconds"].get<double>(), 0);
}

TEST(ModelStudy, ACompiledRowAloneIsComparedAllTheSame) {
  CpuDevice device(two_threads());
  ModelStudy study(device, quick());
  const Record record = run_row(study, workload(Mode::compiled));
  ASSERT_EQ(record.status, Status::ok) << record.error;
  EXPECT_TRUE(checked_tensors(record).contains("full_step.gradients"));
}

TEST(ModelStudy, MetricsFollowTheirConventions) {
  CpuDevice device(two_threads());
  ModelStudy study(device, quick());
  const Record record = run_row(study, workload(Mode::vanilla));
  for (const ScenarioInfo& scenario : kModelScenarios) {
    const double seconds = record.find_series(scenario.series)->statistics.median_ms / 1e3;
    const Json& of = record.metrics.value()[std::string(scenario.series)];
    EXPECT_NEAR(of["tokens_per_s"].get<double>() * seconds, 32, 1e-9);
    const double flops = model_forward_flops(testing::tiny_transformer()) *
                         (scenario.scenario == Scenario::forward ? 1 : 3);
    EXPECT_DOUBLE_EQ(of["model_flops"].get<double>(), flops);
    EXPECT_GT(of["mfu"].get<double>(), 0);
    EXPECT_LT(of["mfu"].get<double>(), 1);
  }
}

TEST(ModelStudy, AScenarioAboveTheBudgetIsNotTriedAndTheOthersStand) {
  CpuDevice roomy(two_threads());
  ModelStudyOptions options = quick();
  options.scenarios = {Scenario::forward};
  const Bytes forward = ModelStudy(roomy, options).predicted_peak(workload(Mode::vanilla));
  CpuDevice device(two_threads(forward));
  ModelStudy study(device, quick());
  const Record record = run_row(study, workload(Mode::vanilla));
  EXPECT_EQ(record.status, Status::oom);
  EXPECT_NE(record.find_series("forward"), nullptr);
  EXPECT_EQ(record.find_series("full_step"), nullptr);
  EXPECT_HAS(record.error, "full-step: the predicted peak of");
  EXPECT_EQ(record.memory.peak, forward);
  EXPECT_GT(record.memory.predicted_peak, forward) << "so that --resume knows when it fits";
}

// The plan would fit, but what runs instead of it does not.
TEST(ModelStudy, WithoutACompilerTheBudgetIsHeldAgainstWhatRuns) {
  setenv("CXX", "/nowhere/c++", 1);
  ModelStudyOptions options = quick();
  options.scenarios = {Scenario::full_step};
  options.row.verify = false;
  CpuDevice roomy(two_threads());
  ModelStudy study(roomy, options);
  const ModelWorkload row = workload(Mode::compiled);
  const Bytes planned = study.predicted_peak(row);
  const Record eager = run_row(study, row);
  CpuDevice device(two_threads(planned));
  ModelStudy within(device, options);
  const Record record = run_row(within, row);
  unsetenv("CXX");
  ASSERT_EQ(eager.status, Status::ok) << eager.error;
  EXPECT_EQ(eager.memory.predicted_peak, eager.memory.peak);
  EXPECT_GT(eager.memory.peak, planned);
  EXPECT_EQ(record.status, Status::oom);
  EXPECT_HAS(record.error, "not tried");
  EXPECT_EQ(record.memory.predicted_peak, eager.memory.peak);
}

TEST(ModelStudy, WithoutWarmUpsTheFirstStepIsASample) {
  CpuDevice device(two_threads());
  ModelStudyOptions options = quick();
  options.row.protocol.warmups = 0;
  ModelStudy study(device, options);
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    const Record record = run_row(study, workload(mode));
    EXPECT_EQ(record.status, Status::ok) << record.error;
    EXPECT_EQ(record.protocol.warmups, 0);
    EXPECT_TRUE(record.verification.checked);
  }
}

TEST(ModelStudy, Tf32IsUnsupportedOnACpu) {
  CpuDevice device(two_threads());
  ModelStudy study(device, quick());
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    const Record record = run_row(study, workload(mode, ModelPrecision::tf32));
    EXPECT_EQ(record.status, Status::unsupported);
    EXPECT_HAS(record.error, "tensor cores");
    EXPECT_TRUE(record.series.empty());
  }
}

TEST(ModelStudy, AnInterruptedRowIsNoRecord) {
  CpuDevice device(two_threads());
  ModelStudyOptions options = quick();
  options.row.interrupted = [] { return true; };
  ModelStudy study(device, options);
  const ModelWorkload row = workload(Mode::vanilla);
  EXPECT_FALSE(study.run(row, study.describe(row, blank())).has_value());
  EXPECT_EQ(device.ledger().live(), Bytes{0});
}

TEST(ModelStudy, RowsAreToldApartByWhatChangesThem) {
  CpuDevice device(two_threads());
  std::set<std::string> keys;
  for (const int warmups : {0, 5})
    for (const bool all : {false, true}) {
      ModelStudyOptions options = quick();
      options.row.protocol.warmups = warmups;
      if (!all) options.scenarios = {Scenario::full_step};
      for (const Mode mode : {Mode::vanilla, Mode::compiled})
        keys.insert(workload_key(ModelStudy(device, options).describe(workload(mode), blank())));
    }
  EXPECT_EQ(keys.size(), 8u);
}

TEST(ModelStudy, ExplainsThePlanOfEachScenario) {
  CpuDevice device(two_threads());
  ModelStudy study(device, quick());
  const ModelWorkload row = workload(Mode::compiled);
  const Record record = run_row(study, row);
  const std::string text = study.explain(row, &record);
  for (const char* part :
       {"compiled, full-step", "became one attention node", "kernels instead of", "not fused",
        "predicted: peak memory", "measured:", "adamw_update", "stage backward"})
    EXPECT_HAS(text, part);
  const Executable vanilla =
      testing::model_executable(workload(Mode::vanilla), Scenario::full_step, device);
  const std::string launches =
      "launches per step: " + std::to_string(vanilla.launches()) + " vanilla, ";
  EXPECT_HAS(text, launches);
}

TEST(ModelStudy, ExplainSaysWhetherWhatIsComputedAgainMakesItFit) {
  CpuDevice device(two_threads());
  const auto explained = [&](Bytes budget) {
    return testing::model_executable(workload(Mode::compiled), Scenario::forward_backward, device,
                                     {}, budget)
        .explain();
  };
  const auto peak = [&](std::optional<Bytes> budget) {
    return testing::model_executable(workload(Mode::compiled), Scenario::forward_backward, device,
                                     {}, budget)
        .predicted_peak();
  };
  const Bytes least = peak(Bytes{1});
  ASSERT_LT(least, peak(std::nullopt));
  EXPECT_HAS(explained(least), "in backward to fit " + to_string(least));
  EXPECT_HAS(explained(Bytes{1}), "and yet it does not fit");
}

TEST(ModelInputs, AreTheSameWhetherKeptOrDrawnAgain) {
  CpuDevice device(two_threads());
  Executable executable =
      testing::model_executable(workload(Mode::vanilla), Scenario::full_step, device);
  executable.prepare();
  const auto head = [&] {
    const TensorView view = executable.input("lm_head.weight");
    std::vector<float> values(static_cast<size_t>(element_count(view.shape)));
    device.download(view, values.data());
    return values;
  };
  ModelInputs keeping(device, {.keep = Bytes{1 << 20}}), drawing(device, {});
  keeping.fill(executable, testing::tiny_transformer());
  const std::vector<float> first = head();
  device.poison(executable.input("lm_head.weight"));
  keeping.fill(executable, testing::tiny_transformer());
  EXPECT_EQ(head(), first);
  device.poison(executable.input("lm_head.weight"));
  drawing.fill(executable, testing::tiny_transformer());
  EXPECT_EQ(head(), first);
}

ModelSample good_sample() {
  return {.loss = expected_loss(testing::tiny_transformer(), 32).loss,
          .gradients = {{"a", {1, -2, 3}}, {"b", {0.1, 0.2, 0.1}}, {"c", {0, 0, 0}}}};
}

std::string wrong(const ModelSample& sample, const std::optional<ModelSample>& reference,
                  ModelPrecision precision = ModelPrecision::mixed) {
  Verification verification;
  compare_samples({testing::tiny_transformer(), precision, Mode::compiled}, Scenario::full_step,
                  sample, reference, verification);
  return first_wrong_tensor(verification);
}

TEST(ModelVerification, AcceptsWhatRoundsAndRefusesWhatDiffers) {
  EXPECT_EQ(wrong(good_sample(), good_sample()), "");
  ModelSample rounded = good_sample();
  rounded.gradients["a"][0] *= 1 + 0x1p-8;
  EXPECT_EQ(wrong(rounded, good_sample()), "");
  ModelSample flipped = good_sample();
  for (double& value : flipped.gradients["b"]) value = -value;
  EXPECT_NE(wrong(flipped, good_sample()), "");
  ModelSample missing = good_sample();
  missing.gradients.erase("a");
  EXPECT_NE(wrong(missing, good_sample()), "");
  ModelSample from_nothing = good_sample();
  from_nothing.gradients["c"][1] = 1e-3;
  EXPECT_NE(wrong(from_nothing, good_sample()), "");
  ModelSample narrow = good_sample();
  narrow.gradients["a"][1] *= 1.01;
  EXPECT_NE(wrong(narrow, good_sample(), ModelPrecision::fp32), "");
}

TEST(ModelVerification, AGradientThatVanishesMayRoundAndNothingElse) {
  for (const ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed}) {
    ModelSample reference = good_sample(), sample = good_sample();
    sample.gradients["c"] = {1e-7, -2e-7, 0};
    EXPECT_EQ(wrong(sample, reference, precision), "") << "vanilla has zeros";
    reference.gradients["c"] = {-1e-7, 1e-7, 1e-7};
    EXPECT_EQ(wrong(sample, reference, precision), "") << "both have roundings";
    sample.gradients["c"][0] = 1e-5;
    EXPECT_NE(wrong(sample, reference, precision), "") << "far above roundings of the largest";
    reference.gradients["c"] = {1e-4, 1e-4, -1e-4};
    sample.gradients["c"] = {-1e-4, 1e-4, -1e-4};
    EXPECT_NE(wrong(sample, reference, precision), "") << "small, but not vanishing";
    sample.gradients["c"] = {std::nan(""), 0, 0};
    EXPECT_NE(wrong(sample, reference, precision), "");
  }
}

// One token has one key, so that queries and keys have no gradient; one word in the vocabulary has
// no loss; the same word twice has the same value for both of its keys.
TEST(ModelVerification, ModelsWhoseGradientsOrLossVanishAreNotWrong) {
  CpuDevice device(two_threads());
  struct Size {
    int64_t vocabulary, batch_size, context_length;
  };
  for (const Size& size : {Size{96, 1, 1}, {1, 2, 16}, {2, 1, 2}})
    for (const ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed})
      for (const uint64_t seed : {42, 222}) {
        ModelWorkload row = workload(Mode::compiled, precision);
        row.config.layers = 1;
        row.config.vocabulary = size.vocabulary;
        row.config.batch_size = size.batch_size;
        row.config.context_length = size.context_length;
        ModelStudyOptions options = quick();
        options.scenarios = {Scenario::forward, Scenario::forward_backward};
        options.row.seed = seed;
        ModelStudy study(device, options);
        const Record record = run_row(study, row);
        EXPECT_EQ(record.status, Status::ok)
            << "vocabulary " << size.vocabulary << ", " << label(row) << ": " << record.error;
      }
}

TEST(ModelVerification, RefusesALossThatTheBeginningCannotHave) {
  for (const double loss : {0.0, 3.0, 12.0, std::nan(""), HUGE_VAL}) {
    ModelSample sample = good_sample();
    sample.loss = loss;
    EXPECT_NE(wrong(sample, std::nullopt), "") << loss;
  }
  for (const double error : {0.5, std::nan("")}) {
    ModelSample sample = good_sample();
    sample.clipping_error = error;
    EXPECT_NE(wrong(sample, std::nullopt), "") << error;
  }
}

TEST(ModelVerification, WithoutAReferenceAllOfItIsFinite) {
  const double nan = std::nan("");
  const auto given = [](ModelSample sample) {
    sample.is_drawn = false;
    return wrong(sample, std::nullopt);
  };
  EXPECT_EQ(given(good_sample()), "");
  for (const double bad : {nan, HUGE_VAL, -HUGE_VAL}) {
    ModelSample loss = good_sample(), logits = good_sample(), gradient = good_sample();
    ModelSample norm = good_sample();
    loss.loss = bad;
    norm.gradient_norm = bad;
    logits.logits = {1, bad};
    gradient.gradients["b"][2] = bad;
    EXPECT_EQ(given(loss), "full_step.loss is not finite");
    EXPECT_EQ(given(norm), "full_step.gradient_norm is not finite");
    EXPECT_EQ(given(logits), "full_step.logits is not finite");
    EXPECT_EQ(given(gradient), "full_step.d_b is not finite");
  }
}

TEST(ModelVerification, ASmallDistanceIsRecordedAsItIs) {
  const auto worst = [](const ModelSample& sample) {
    Verification verification;
    compare_samples(workload(Mode::compiled), Scenario::forward_backward, sample, good_sample(),
                    verification);
    EXPECT_EQ(first_wrong_tensor(verification), "");
    return verification.tensors.back().max_error;
  };
  EXPECT_EQ(worst(good_sample()), 0);
  ModelSample sample = good_sample();
  sample.gradients["a"] = {1 + 1e-7, -2, 3};
  EXPECT_NEAR(worst(sample), 1e-7 / std::sqrt(14), 1e-12);
  sample.gradients["c"] = {1e-7, 0, 0};  // of nothing: against a hundredth of the largest
  EXPECT_NEAR(worst(sample), 1e-5 / std::sqrt(14), 1e-10);
}

TEST(ModelVerification, NanIsTheWorstErrorWhereverItStands) {
  const auto error_of = [](const ModelSample& sample, const std::string& name) {
    ModelSample reference = good_sample();
    reference.gradient_norm = 1;
    Verification verification;
    compare_samples(workload(Mode::compiled), Scenario::full_step, sample, reference, verification);
    for (const TensorError& tensor : verification.tensors)
      if (tensor.name == "full_step." + name) return tensor.max_error;
    return 0.0;
  };
  for (const char* name : {"a", "b", "c"}) {
    ModelSample sample = good_sample();
    sample.gradients[name][1] = std::nan("");
    EXPECT_TRUE(std::isnan(error_of(sample, "worst_gradient"))) << name;
  }
  ModelSample sample = good_sample();
  sample.gradient_norm = std::nan("");
  EXPECT_TRUE(std::isnan(error_of(sample, "gradient_norm")));
}

// A row with a fault in one kind of kernel.
Record run_with(const testing::PlantedFault& fault, Mode mode, ModelPrecision precision,
                double max_norm) {
  testing::Faulty<CpuDevice> device(two_threads());
  device.plant(fault);
  ModelStudyOptions options = quick();
  options.scenarios = {Scenario::full_step};
  options.optimizer.max_norm = max_norm;
  ModelStudy study(device, options);
  const Record record = run_row(study, workload(mode, precision));
  EXPECT_TRUE(device.planted());
  return record;
}

TEST(ModelVerification, ASecondMomentThatIsTooLargeIsSeen) {
  for (const Mode mode : {Mode::vanilla, Mode::compiled})
    for (const ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed}) {
      CpuDevice device(two_threads());
      const Executable executable =
          testing::model_executable(workload(mode, precision), Scenario::full_step, device);
      const auto nodes = executable.graph().nodes();
      const Node& update = *std::ranges::find(nodes, Op::adamw_update, &Node::op);
      const size_t parameters =
          update.outputs.size() / std::get<AdamWSpec>(update.attributes.detail).results_of_each();
      const Record record = run_with({.op = Op::adamw_update,
                                      .node = update.first_value,
                                      .result = {"a hundred times too large",
                                                 [](std::vector<float>& v, size_t, DType) {
                                                   for (float& value : v) value *= 100;
                                                 }},
                                      .output = 2 * parameters},
                                     mode, precision, 0);
      EXPECT_EQ(record.status, Status::wrong) << info(mode).name;
      EXPECT_HAS(record.error, "full_step.v.");
    }
}

TEST(ModelVerification, ANormOf0ThatSwitchesClippingOffIsSeen) {
  for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
    const Record record =
        run_with({.op = Op::sum_of_squares,
                  .result = {"nothing", [](std::vector<float>& v, size_t, DType) { v[0] = 0; }}},
                 mode, ModelPrecision::fp32, 0.5);
    EXPECT_EQ(record.status, Status::wrong) << info(mode).name;
    // Seen without looking at kernels, too.
    bool clipping = false;
    for (const TensorError& tensor : record.verification.tensors)
      clipping = clipping ||
                 (tensor.name == "full_step.clipping" && !(tensor.max_error <= tensor.tolerance));
    EXPECT_TRUE(clipping);
  }
}

TEST(ModelVerification, ANormOf0IsComparedLikeAnyOther) {
  ModelSample sample = good_sample(), reference = good_sample();
  sample.gradient_norm = reference.gradient_norm = 0;
  EXPECT_EQ(wrong(sample, reference), "");
  reference.gradient_norm = 2;
  EXPECT_NE(wrong(sample, reference), "");
  EXPECT_NE(wrong(reference, sample), "");
}

TEST(ModelVerification, SettingsOfTheUpdateAreThoseThatWereAskedFor) {
  CpuDevice device(two_threads());
  const AdamWOptions asked{.max_norm = 1};
  Executable executable =
      testing::model_executable(workload(Mode::vanilla), Scenario::full_step, device, asked);
  executable.prepare();
  ModelInputs inputs(device, {});
  inputs.fill(executable, testing::tiny_transformer());
  inputs.set_step(executable, 3, asked);
  EXPECT_LT(update_settings_error(executable, device, asked, 3), 1e-7);
  EXPECT_GT(update_settings_error(executable, device, asked, 4), 0.1) << "another step";
  for (const AdamWOptions& other :
       {AdamWOptions{.learning_rate = 2e-3, .max_norm = 1},
        AdamWOptions{.beta1 = 0.8, .max_norm = 1}, AdamWOptions{.epsilon = 1e-6, .max_norm = 1},
        AdamWOptions{.weight_decay = 0, .max_norm = 1},
        AdamWOptions{.variant = AdamWVariant::pytorch, .max_norm = 1}, AdamWOptions{.max_norm = 0}})
    EXPECT_GT(update_settings_error(executable, device, other, 3), 1e-3);
}

TEST(ModelInputs, UnevenOnesLeaveNoParameterAllAlikeAndNoMomentAllZero) {
  CpuDevice device(two_threads());
  for (const ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed}) {
    const TransformerConfig config = testing::tiny_transformer();
    Executable executable =
        testing::model_executable(workload(Mode::compiled, precision), Scenario::full_step, device);
    executable.prepare();
    ModelInputs inputs(device, {});
    inputs.fill_unevenly(executable, config);
    for (const Parameter& parameter : transformer_parameters(config))
      for (const Role role : {Role::parameter, Role::first_moment, Role::second_moment}) {
        const std::string name = tensor_name(role, parameter.name);
        const std::vector<double> values = read_values(device, executable.input(name));
        EXPECT_GT(std::set<double>(values.begin(), values.end()).size(), values.size() / 3) << name;
      }
  }
}

}  // namespace
}  // namespace ridgeline::model_study_test
