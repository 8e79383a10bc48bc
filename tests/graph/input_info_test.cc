#include "graph/input_info.h"

#include <gtest/gtest.h>

#include "base/error.h"
#include "graph/tensor.h"

namespace ridgeline {
namespace {

const TensorType kMatrix = {DType::f32, {5, 4}};

std::string problem_of(const Graph& graph) {
  try {
    verify(graph);
  } catch (const Error& error) {
    return error.message();
  }
  return "none";
}

TEST(InputInfo, NamesFollowFromRoleAndParts) {
  const std::vector<InputPart> parts = {{"q", 2}, {"k", 3}};
  EXPECT_EQ(input_name(Role::parameter, parts), "q+k");
  EXPECT_EQ(input_name(Role::first_moment, parts), "m.q+k");
  EXPECT_EQ(tensor_name(Role::second_moment, "k"), "v.k");
  EXPECT_EQ(tensor_name(Role::copy, "k"), "16bit.k");
}

TEST(InputInfo, TextTellsRoleAndParts) {
  Graph graph;
  input(graph, "tokens", {DType::i32, {3}});
  parameter(graph, "w", kMatrix);
  input_of_parts(graph, Role::first_moment, {{"q", 2}, {"k", 3}}, kMatrix);
  EXPECT_EQ(to_text(graph),
            "%0 tokens = input(tokens) : i32[3]\n"
            "%1 w = input(w, parameter: 5 rows of w) : fp32[5, 4]\n"
            "%2 m.q+k = input(m.q+k, first moment: 2 rows of q, 3 rows of k) : fp32[5, 4]\n");
}

TEST(InputInfo, PartsAskedForAgainAreTheSameInput) {
  Graph graph;
  const std::vector<InputPart> parts = {{"q", 2}, {"k", 3}};
  const Tensor first = input_of_parts(graph, Role::parameter, parts, kMatrix);
  EXPECT_EQ(input_of_parts(graph, Role::parameter, parts, kMatrix).value(), first.value());
  EXPECT_EQ(graph.inputs().size(), 1u);
  EXPECT_EQ(problem_of(graph), "none");
}

TEST(InputInfo, PartsFillTheRows) {
  Graph graph;
  input_of_parts(graph, Role::parameter, {{"q", 2}, {"k", 2}}, kMatrix);
  EXPECT_EQ(problem_of(graph), "broken graph: input q+k has parts of 4 rows in [5, 4]");
}

TEST(InputInfo, OnlyWhatHoldsParametersHasParts) {
  Graph graph;
  graph.input({"x", Role::data, {{"x", 5}}}, kMatrix);
  EXPECT_EQ(problem_of(graph), "broken graph: input x is called data and has 1 parts");
  Graph other;
  other.input({"w", Role::parameter}, kMatrix);
  EXPECT_EQ(problem_of(other), "broken graph: input w is called parameter and has 0 parts");
}

TEST(InputInfo, AParameterIsHeldOnceInEachRole) {
  Graph graph;
  parameter(graph, "q", kMatrix);
  input_of_parts(graph, Role::parameter, {{"q", 2}, {"k", 3}}, kMatrix);
  EXPECT_EQ(problem_of(graph), "broken graph: input q+k holds the parameter of q a second time");
}

TEST(InputInfo, AMomentBelongsToAParameter) {
  Graph graph;
  input_of_parts(graph, Role::first_moment, {{"w", 5}}, kMatrix);
  EXPECT_EQ(problem_of(graph), "broken graph: there is a first moment of w, which is no parameter");
  parameter(graph, "w", kMatrix);
  EXPECT_EQ(problem_of(graph), "none");
}

}  // namespace
}  // namespace ridgeline
