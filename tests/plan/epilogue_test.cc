// Which products are offered an epilogue, what it takes over, and which are refused with which
// reason.
#include <gtest/gtest.h>

#include <cmath>

#include "graph/tensor.h"
#include "plan/plan.h"
#include "support/expect.h"

namespace ridgeline {
namespace {

const PlanOptions kAlways = {
    .epilogue = [](const Graph&, const std::vector<Layout>&, const EpilogueOffer&) {
      return EpilogueDecision{.takes = true};
    }};
const PlanOptions kNever = {.epilogue = [](const Graph&, const std::vector<Layout>&,
                                           const EpilogueOffer&) { return EpilogueDecision{}; }};

constexpr int64_t kRows = 48, kColumns = 64, kDepth = 32;

struct Case {
  explicit Case(DType dtype = DType::f32) {
    a = input(graph, "a", {dtype, {kRows, kDepth}});
    b = input(graph, "b", {dtype, {kDepth, kColumns}});
    product = matmul(a, b);
  }
  Tensor whole(const char* name, DType dtype) {
    return input(graph, name, {dtype, {kRows, kColumns}});
  }
  Tensor row(DType dtype) { return input(graph, "bias", {dtype, {kColumns}}); }

  Graph graph;
  Tensor a, b, product;
};

Tensor rms_norm(const Tensor& x) {
  return x * rsqrt(mean(x * x, {-1}) + 1e-5);
}

Tensor gelu(const Tensor& x) {
  const Tensor inner = (x + x * x * x * 0.044715) * std::sqrt(2 / std::acos(-1.0));
  return x * 0.5 * (tanh(inner) + 1);
}

// The plan of the one graph with `result` as its output, with every epilogue that is offered.
Plan taken(Case& of, const Tensor& result) {
  of.graph.mark_output("y", result.value());
  return make_plan(of.graph, kAlways);
}

void expect_whole(Case& of, const Tensor& result, const std::string& epilogue) {
  const Plan plan = taken(of, result);
  ASSERT_EQ(plan.epilogues.size(), 1u);
  ASSERT_TRUE(plan.epilogues[0].offer) << text_of(plan.epilogues[0].refusal);
  EXPECT_EQ(to_string(*plan.epilogues[0].offer->fused.epilogue), epilogue);
  ASSERT_EQ(plan.kernels.size(), 1u) << explain(of.graph, plan);
  EXPECT_TRUE(plan.kernels[0].group.epilogue);
}

TEST(Epilogue, ASumWithATensorIsOneCall) {
  for (DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    Case left(dtype), right(dtype);
    expect_whole(left, left.product + left.whole("r", dtype), "+ tensor");
    expect_whole(right, right.whole("r", dtype) + right.product, "+ tensor");
  }
}

TEST(Epilogue, A16BitProductIsAddedToAnFp32Stream) {
  Case mixed(DType::bf16);
  expect_whole(mixed, mixed.whole("r", DType::f32) + cast(mixed.product, DType::f32), "+ tensor");
}

TEST(Epilogue, BiasAndActivation) {
  Case bias;
  expect_whole(bias, bias.product + bias.row(DType::f32), "+ bias");
  Case scale;
  expect_whole(scale, scale.product * 0.125, "scaled");
  Case all;
  expect_whole(all, gelu(all.product * 0.5 + all.whole("r", DType::f32) + all.row(DType::f32)),
               "scaled, + tensor, + bias, gelu");
}

// However they are written.
TEST(Epilogue, ActivationsAreToldByTheirValues) {
  Case by_maximum, by_where, by_tanh, by_sigmoid;
  const auto biased = [](Case& of) { return of.product + of.row(DType::f32); };
  Tensor x = biased(by_maximum);
  expect_whole(by_maximum, maximum(x, scalar(x, 0)), "+ bias, relu");
  x = biased(by_where);
  expect_whole(by_where, where(less(x, scalar(x, 0)), scalar(x, 0), x), "+ bias, relu");
  x = biased(by_tanh);
  expect_whole(by_tanh, gelu(x), "+ bias, gelu");
  x = biased(by_sigmoid);
  const double twice = 2 * std::sqrt(2 / std::acos(-1.0));
  expect_whole(by_sigmoid, x * sigmoid((x + x * x * x * 0.044715) * twice), "+ bias, gelu");
}

// What resembles an activation stays where it is.
TEST(Epilogue, OtherFunctionsAreNotTaken) {
  using Function = Tensor (*)(const Tensor&);
  for (Function function : {Function([](const Tensor& x) { return x * sigmoid(x * 1.702); }),
                            Function([](const Tensor& x) { return maximum(x, scalar(x, 0.01)); }),
                            Function([](const Tensor& x) { return maximum(x, x * 0.01); }),
                            Function([](const Tensor& x) { return silu(x); })}) {
    Case other;
    const Plan plan = taken(other, function(other.product + other.row(DType::f32)));
    ASSERT_TRUE(plan.epilogues[0].offer);
    EXPECT_EQ(to_string(*plan.epilogues[0].offer->fused.epilogue), "+ bias");
    EXPECT_EQ(plan.kernels.size(), 2u);
  }
}

// The sum is wanted twice: by the norm, and by whoever comes after it.
TEST(Epilogue, TheKernelBehindAResidualKeepsItsNorm) {
  Case residual;
  const Tensor sum = residual.product + residual.whole("r", DType::f32);
  residual.graph.mark_output("stream", sum.value());
  const Plan plan = taken(residual, rms_norm(sum));
  ASSERT_EQ(plan.kernels.size(), 2u) << explain(residual.graph, plan);
  EXPECT_TRUE(plan.kernels[0].group.epilogue->addend);
  EXPECT_EQ(plan.kernels[0].group.writes, std::vector<Value>{sum.value()});
  EXPECT_EQ(plan.kernels[1].group.reads, std::vector<Value>{sum.value()});
  const EpilogueOffer& offer = *plan.epilogues[0].offer;
  const double one = 4 * kRows * kColumns;
  EXPECT_EQ(offer.split_bytes, 5 * one);  // write, read, read; write both
  EXPECT_EQ(offer.fused_bytes, 4 * one);
}

// In mixed precision the stream is wider than the product, and an epilogue would not even save
// bytes.
TEST(Epilogue, AnOfferThatIsNotTakenLeavesThePlanAndIsTold) {
  for (DType dtype : {DType::f32, DType::bf16}) {
    Case residual(dtype);
    const Tensor sum = cast(residual.product, DType::f32) + residual.whole("r", DType::f32);
    residual.graph.mark_output("stream", sum.value());
    residual.graph.mark_output("norm", cast(rms_norm(sum), dtype).value());
    const Plan plan = make_plan(residual.graph, kNever);
    const EpilogueNote& note = plan.epilogues[0];
    ASSERT_TRUE(note.offer);
    EXPECT_EQ(note.offer->fused_bytes < note.offer->split_bytes, dtype == DType::f32);
    EXPECT_FALSE(plan.kernels[0].group.epilogue.has_value());
    EXPECT_HAS(explain(residual.graph, plan), "not timed");
  }
}

TEST(Epilogue, WithoutADeviceThatHasThemNothingIsTaken) {
  Case residual;
  residual.graph.mark_output("y", (residual.product + residual.whole("r", DType::f32)).value());
  const Plan plan = make_plan(residual.graph);
  EXPECT_EQ(plan.kernels.size(), 2u);
  EXPECT_HAS(explain(residual.graph, plan), "no device whose products have epilogues was asked");
}

TEST(Epilogue, TimesAreShown) {
  Case residual;
  residual.graph.mark_output("y", (residual.product + residual.whole("r", DType::f32)).value());
  const Plan plan =
      make_plan(residual.graph,
                {.epilogue = [](const Graph&, const std::vector<Layout>&, const EpilogueOffer&) {
                  return EpilogueDecision{.takes = false, .split_ms = 0.002, .fused_ms = 0.0035};
                }});
  EXPECT_HAS(explain(residual.graph, plan),
             "not taken [+ tensor]: timed: 3.50 us with it, 2.00 us in kernels of their")
      << explain(residual.graph, plan);
}

// A residual stream that is cheaper to add up again than to keep.
TEST(Epilogue, SeveralReadersThatDoTheSameAreOnePlace) {
  Case several(DType::bf16);
  const Tensor sum = cast(several.product, DType::f32) + several.whole("r", DType::f32);
  const Tensor norm = cast(rms_norm(sum), DType::bf16);
  const Tensor next = matmul(norm, input(several.graph, "w", {DType::bf16, {kColumns, kColumns}}));
  several.graph.mark_output("y", tanh(sum + cast(next, DType::f32)).value());
  const Plan split = make_plan(several.graph), fused = make_plan(several.graph, kAlways);
  ASSERT_EQ(split.kernels.size(), 4u) << explain(several.graph, split);
  ASSERT_EQ(split.epilogues[0].offer->kernels.size(), 2u) << explain(several.graph, split);
  ASSERT_TRUE(fused.kernels[0].group.epilogue) << explain(several.graph, fused);
  EXPECT_EQ(fused.kernels[1].group.reads, std::vector<Value>{sum.value()});
  EXPECT_EQ(fused.kernels.back().group.reads.size(), 2u) << explain(several.graph, fused);
}

// Gradients that meet: the later product adds the earlier one's result.
TEST(Epilogue, OfTwoProductsTheLaterOneTakesTheSum) {
  Case two;
  const Tensor other = matmul(sin(two.a), two.b);
  const Plan plan = taken(two, two.product + other);
  ASSERT_EQ(plan.kernels.size(), 3u) << explain(two.graph, plan);
  ASSERT_TRUE(plan.kernels[2].group.epilogue);
  EXPECT_EQ(plan.kernels[2].group.node, other.value().node);
  EXPECT_EQ(plan.kernels[2].group.epilogue->addend->storage, two.product.value());
}

// What is added is there only after the product: the product waits for it.
TEST(Epilogue, AProductWaitsForWhatIsAdded) {
  Case waits;
  const Tensor table = input(waits.graph, "table", {DType::f32, {9, kColumns}});
  const Tensor rows = input(waits.graph, "rows", {DType::i32, {kRows}});
  const Tensor gathered = gather(table, rows);
  const Plan plan = taken(waits, waits.product + gathered);
  ASSERT_EQ(plan.kernels.size(), 2u) << explain(waits.graph, plan);
  EXPECT_EQ(plan.kernels[0].group.node, gathered.value().node);
  EXPECT_TRUE(plan.kernels[1].group.epilogue);
}

TEST(Epilogue, RefusalsSayWhy) {
  const auto refusal = [](Case& of, const Tensor& result) {
    const Plan plan = taken(of, result);
    for (const EpilogueNote& note : plan.epilogues)
      if (note.product == of.product.value()) return note.refusal;
    return EpilogueRefusal::none;
  };
  Case read_by_library;
  EXPECT_EQ(
      refusal(read_by_library, matmul(read_by_library.product, transpose(read_by_library.product))),
      EpilogueRefusal::read_elsewhere);
  Case is_output;
  is_output.graph.mark_output("product", is_output.product.value());
  EXPECT_EQ(refusal(is_output, is_output.product * 2), EpilogueRefusal::read_elsewhere);
  Case gate;
  EXPECT_EQ(refusal(gate, silu(gate.product) * gate.whole("r", DType::f32)),
            EpilogueRefusal::nothing_to_take);
  Case with_itself;
  EXPECT_EQ(refusal(with_itself, with_itself.product + with_itself.product),
            EpilogueRefusal::nothing_to_take);
  Case turned;
  EXPECT_EQ(refusal(turned, transpose(turned.product) +
                                input(turned.graph, "t", {DType::f32, {kColumns, kRows}})),
            EpilogueRefusal::read_otherwise);
  Case folded;
  EXPECT_EQ(refusal(folded, sum(folded.product, {0})), EpilogueRefusal::read_otherwise);
  Case twice;
  EXPECT_EQ(refusal(twice, (twice.product + twice.whole("r", DType::f32)) * twice.product),
            EpilogueRefusal::product_needed);
  Case odd(DType::bf16);
  EXPECT_EQ(refusal(odd, cast(odd.product, DType::f16) + odd.whole("r", DType::f16)),
            EpilogueRefusal::different_dtype);
  Case staged;
  staged.graph.begin_stage("backward");
  EXPECT_EQ(refusal(staged, staged.product * 0.5), EpilogueRefusal::different_stage);
}

}  // namespace
}  // namespace ridgeline
