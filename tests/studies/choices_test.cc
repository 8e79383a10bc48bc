// Tables of choices have one row per enumerator, in their order, and find rows by name.
#include "studies/choices.h"

#include <gtest/gtest.h>

#include "measure/test_support.h"
#include "studies/cost/workload.h"
#include "studies/decode/workload.h"
#include "studies/frontier/row.h"
#include "studies/kernel/workload.h"
#include "studies/precision/row.h"

namespace ridgeline::choices_test {
namespace {

template <class Row, class Enum>
void expect_ordered(const Choices<Row>& choices, Enum Row::*choice) {
  for (size_t i = 0; i < choices.rows.size(); ++i) {
    const Row& row = choices.rows[i];
    EXPECT_EQ(static_cast<size_t>(row.*choice), i) << row.name;
    EXPECT_EQ(&choices[row.*choice], &row) << row.name;
    EXPECT_EQ(&choices.find(row.name), &row) << row.name;
  }
  EXPECT_ERROR(choices.find("none"), ErrorKind::usage, choices.rows.back().name);
}

TEST(Choices, AreInTheOrderOfTheirEnumerators) {
  expect_ordered(kModelPrecisions, &ModelPrecisionInfo::precision);
  expect_ordered(kModelScenarios, &ScenarioInfo::scenario);
  expect_ordered(kKernelModes, &KernelModeInfo::mode);
  expect_ordered(kLayerParts, &LayerPartInfo::part);
  expect_ordered(kFloatFormats, &FloatFormatInfo::format);
  expect_ordered(kReducedOps, &ReducedOpInfo::op);
  expect_ordered(kFlowModels, &FlowModelInfo::model);
  expect_ordered(kTrainingVariants, &TrainingVariantInfo::variant);
  expect_ordered(kPrecisionParts, &PrecisionPartInfo::part);
  expect_ordered(kCostOps, &CostOpInfo::op);
  expect_ordered(kCostForms, &CostForm::form);
  expect_ordered(kProbeMethods, &ProbeMethodInfo::method);
}

}  // namespace
}  // namespace ridgeline::choices_test
