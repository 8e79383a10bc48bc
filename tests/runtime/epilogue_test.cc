// Plans whose products have epilogues: against the fp64 interpreter, timed on a device, remembered.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "base/random.h"
#include "passes/decompose.h"
#include "passes/simplify.h"
#include "runtime/compiled_support.h"
#include "runtime/epilogue_choice.h"
#include "support/epilogue_cpu.h"
#include "support/from_environment.h"
#include "support/gpu.h"

namespace ridgeline::epilogue_test {
namespace {

using testing::EpilogueCpu;
using testing::graphs_wanted;

const PlanOptions kAlways = {
    .epilogue = [](const Graph&, const std::vector<Layout>&, const EpilogueOffer&) {
      return EpilogueDecision{.takes = true};
    }};

EpilogueCpu& cpu() {
  static EpilogueCpu device({.threads = 3, .compiler = {.cache_dir = "off"}});
  return device;
}

testing::RandomGraph random_products(uint64_t seed, DType dtype) {
  testing::RandomGraph made = testing::RandomGraphMaker(seed, dtype).make_products(2);
  made.graph = simplify(decompose(made.graph));
  return made;
}

// Random graphs, with every epilogue that is offered.
void expect_agreement(DType dtype, uint64_t first, uint64_t count, Device& device) {
  const auto make = [&](uint64_t seed) { return random_products(seed, dtype); };
  int offers = 0;
  for (uint64_t seed = first; seed < first + count; ++seed)
    for (const EpilogueNote& note : make_plan(make(seed).graph, kAlways).epilogues)
      offers += note.offer.has_value();
  EXPECT_GT(offers, static_cast<int>(count / 2));
  testing::expect_agreement_of_many(first, count, dtype, device, make, kAlways);
}

TEST(EpilogueOnCpu, RandomGraphs) {
  expect_agreement(DType::f32, 20000, graphs_wanted(40), cpu());
  expect_agreement(DType::bf16, 30000, graphs_wanted(40), cpu());
  EXPECT_GT(cpu().multiplied, 0);
}

// Every kind of epilogue on operands in a dtype, the result in another one.
struct Kind {
  const char* name;
  bool scales, adds, has_bias;
  Activation activation;
};
constexpr Kind kKinds[] = {
    {"scaled", true, false, false, Activation::none},
    {"+ tensor", false, true, false, Activation::none},
    {"+ bias", false, false, true, Activation::none},
    {"relu", false, false, false, Activation::relu},
    {"gelu", false, false, false, Activation::gelu},
    {"+ bias, relu", false, false, true, Activation::relu},
    {"+ bias, gelu", false, false, true, Activation::gelu},
    {"scaled, + tensor, + bias, gelu", true, true, true, Activation::gelu},
};

struct Made {
  Graph graph;
  InterpreterInputs inputs;
};

void build(Made& made, const Kind& kind, DType dtype, DType result, const Shape& batch) {
  const auto random = [&](const char* name, const Shape& shape, DType of, double size) {
    NormalRandom values(7, name);
    for (int64_t i = 0; i < element_count(shape); ++i)
      made.inputs[name].push_back(round_to(of, size * values.next()));
    return input(made.graph, name, {of, shape});
  };
  constexpr int64_t kRows = 72, kColumns = 136, kDepth = 64;
  Shape left = batch, whole = batch;
  for (int64_t size : {kRows, kDepth}) left.push_back(size);
  for (int64_t size : {kRows, kColumns}) whole.push_back(size);
  Tensor y = cast(matmul(random("a", left, dtype, 1), random("b", {kDepth, kColumns}, dtype, 0.2)),
                  result);
  if (kind.scales) y = y * 0.375;
  if (kind.adds) y = y + random("addend", whole, result, 4);
  if (kind.has_bias) y = y + random("bias", {kColumns}, result, 1);
  if (kind.activation == Activation::relu) y = maximum(y, scalar(y, 0));
  if (kind.activation == Activation::gelu)
    y = y * 0.5 * (tanh((y + y * y * y * 0.044715) * std::sqrt(2 / std::acos(-1.0))) + 1);
  made.graph.mark_output("y", y.value());
}

// Rounded once: half a unit in the last place of the result, and what sums in fp32 lose. A second
// rounding, of the product, would show where what is added is large against the result. Fast
// functions of a GPU are less exact.
void expect_every_kind(Device& device, double activation_error) {
  for (const Kind& kind : kKinds)
    for (DType dtype : {DType::f32, DType::bf16, DType::f16})
      for (DType result : {dtype, DType::f32})
        for (const Shape& batch : {Shape{}, Shape{3}}) {
          Made made;
          build(made, kind, dtype, result, batch);
          const Plan plan = make_plan(made.graph, kAlways);
          ASSERT_EQ(plan.kernels.size(), 1u) << kind.name << "\n" << explain(made.graph, plan);
          EXPECT_EQ(to_string(*plan.kernels[0].group.epilogue), kind.name);
          const auto got = testing::run_compiled(made.graph, made.inputs, device, kAlways).at("y");
          const auto exact =
              interpret(made.graph, made.inputs,
                        {.round_to_dtype = false})[made.graph.index(made.graph.outputs()[0].value)];
          const double lost =
              kind.activation == Activation::gelu ? std::max(activation_error, 4e-5) : 4e-5;
          for (size_t i = 0; i < exact.size(); ++i)
            ASSERT_LE(
                std::abs(got[i] - exact[i]),
                lost * (1 + std::abs(exact[i])) + 0.51 * info(result).epsilon * std::abs(exact[i]))
                << kind.name << " in " << info(dtype).name << " to " << info(result).name << " at "
                << i << ": " << got[i] << ", not " << exact[i];
          EXPECT_EQ(testing::run_compiled(made.graph, made.inputs, device, kAlways, 3).at("y"),
                    got);
        }
}

TEST(EpilogueOnCpu, EveryKindIsRoundedOnce) {
  expect_every_kind(cpu(), 0);
}

TEST(EpilogueOnGpu, EveryKindIsRoundedOnce) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device({.deterministic = true});
  expect_every_kind(device, 2e-3);
}

TEST(EpilogueOnGpu, RandomGraphs) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice device;
  expect_agreement(DType::f32, 20000, graphs_wanted(60), device);
  expect_agreement(DType::bf16, 30000, graphs_wanted(60), device);
}

// A residual stream and the norm behind it.
void build_residual(Made& made) {
  build(made, kKinds[1], DType::f32, DType::f32, {});
  const Tensor sum(made.graph, made.graph.outputs()[0].value);
  made.graph.mark_output("norm", (sum * rsqrt(mean(sum * sum, {-1}) + 1e-5)).value());
}

// Both forms run as a whole; equal places are equal keys, and others are not.
TEST(EpilogueChoice, TimesBothForms) {
  EpilogueCpu device({.threads = 1, .compiler = {.cache_dir = "off"}});
  const PlanOptions options = {.epilogue = epilogue_chooser(device)};
  Made made;
  build_residual(made);
  const Plan plan = make_plan(made.graph, options);
  ASSERT_EQ(plan.epilogues.size(), 1u);
  const EpilogueDecision& decision = plan.epilogues[0].decision;
  ASSERT_TRUE(decision.split_ms && decision.fused_ms);
  EXPECT_GT(*decision.split_ms, 0);
  EXPECT_GT(*decision.fused_ms, 0);
  EXPECT_TRUE(!decision.takes || *decision.fused_ms < *decision.split_ms);
  EXPECT_GT(device.multiplied, 1);
  EXPECT_EQ(device.ledger().live(), Bytes{});
  make_plan(made.graph, options);
  Made other;
  build(other, kKinds[1], DType::f32, DType::f32, {});
  make_plan(other.graph, options);
  ASSERT_EQ(device.keys.size(), 3u);
  EXPECT_EQ(device.keys[0], device.keys[1]);
  EXPECT_NE(device.keys[0], device.keys[2]);
}

TEST(EpilogueChoice, ACpuKeepsItsKernels) {
  CpuDevice device;
  EXPECT_FALSE(epilogue_chooser(device));
}

// What one process has timed another one finds.
TEST(EpilogueOnGpu, ADecisionIsTimedAndRemembered) {
  RIDGELINE_NEEDS_GPU();
  const std::string directory = ::testing::TempDir() + "/epilogues-" + std::to_string(getpid());
  Made made;
  build_residual(made);
  EpilogueDecision decisions[2];
  for (int round = 0; round < 2; ++round) {
    CudaDevice device(
        {.tuning = round == 0 ? Tuning::quick : Tuning::off, .jit = {.cache_dir = directory}});
    const Plan plan = make_plan(made.graph, {.epilogue = epilogue_chooser(device)});
    decisions[round] = plan.epilogues.at(0).decision;
    ASSERT_TRUE(decisions[round].split_ms && decisions[round].fused_ms) << round;
  }
  std::filesystem::remove_all(directory);
  EXPECT_EQ(decisions[0].takes, decisions[1].takes);
  EXPECT_EQ(decisions[0].split_ms, decisions[1].split_ms);
  EXPECT_EQ(decisions[0].fused_ms, decisions[1].fused_ms);
}

}  // namespace
}  // namespace ridgeline::epilogue_test
