// Rows of the precision study, and what people read of them.
#include "studies/precision/row.h"

#include <gtest/gtest.h>

#include "runtime/cpu_device.h"
#include "studies/precision/model_rows.h"
#include "studies/precision/tables.h"
#include "support/expect.h"

namespace ridgeline::precision_study_test {
namespace {

class PrecisionRows : public ::testing::Test {
 protected:
  Record run(const PrecisionWorkload& workload) {
    return study_.run(workload, study_.describe(workload, {})).value();
  }
  static std::string joined(const std::vector<std::string>& notes) {
    std::string text;
    for (const std::string& note : notes) text += note + '\n';
    return text;
  }

 private:
  CpuDevice device_{{.threads = 1, .ledger = {.budget = Bytes{256 << 20}}}};
  PrecisionStudy study_{device_, {.row = {.protocol = {.warmups = 1, .iterations = 6}}}};
};

// The answers that the assignment asks for, and PyTorch's own.
TEST_F(PrecisionRows, StagesUnderAutocastHaveTheDtypesOfPyTorch) {
  for (const DType narrow : {DType::f16, DType::bf16})
    for (const FlowModel model : {FlowModel::toy, FlowModel::transformer}) {
      size_t found = 0;
      for (const FlowStage& stage : stages_of({model, narrow})) {
        const bool is_product = stage.stage == "first linear" || stage.stage == "logits";
        EXPECT_EQ(stage.dtype, is_product ? narrow : DType::f32) << stage.stage;
        ++found;
      }
      EXPECT_EQ(found, model == FlowModel::toy ? 6u : 10u);
    }
}

TEST_F(PrecisionRows, TellBothPartsOfAnErrorAndAnswerTheQuestion) {
  using enum FloatFormat;
  std::vector<Record> records;
  for (const FloatFormatInfo& values : kFloatFormats)
    for (const FloatFormatInfo& sums : kFloatFormats)
      records.push_back(run(RoundedReduction{
          .op = ReducedOp::repeated, .values = values.format, .accumulator = sums.format}));
  for (const Record& record : records) EXPECT_EQ(record.status, Status::ok);
  const Table csv = precision_csv(records);
  EXPECT_EQ(csv.rows.size(), 16u);
  EXPECT_EQ(precision_tables(records).size(), 1u);
  const std::string notes = joined(precision_notes(records));
  EXPECT_HAS(notes, "fp16 values in fp16 sums give 9.953125");
  EXPECT_HAS(notes, "stops at 4 after 350");
  EXPECT_EQ(cause_of(run(
                RoundedReduction{.op = ReducedOp::repeated, .values = fp16, .accumulator = fp32})),
            "representation");
  EXPECT_EQ(cause_of(run(
                RoundedReduction{.op = ReducedOp::repeated, .values = fp16, .accumulator = fp16})),
            "accumulation");
}

TEST_F(PrecisionRows, NormsExplainRangeAndPrecision) {
  using enum FloatFormat;
  std::vector<Record> records;
  for (const double magnitude : {1.0, 1000.0})
    for (const int64_t length : {64, 4096})
      for (const auto& [values, sums] :
           {std::pair{fp16, fp16}, {fp16, fp32}, {bf16, bf16}, {bf16, fp32}})
        records.push_back(run(RoundedReduction{.op = ReducedOp::rms_norm,
                                               .values = values,
                                               .accumulator = sums,
                                               .length = length,
                                               .magnitude = magnitude}));
  const std::string notes = joined(precision_notes(records));
  EXPECT_HAS(notes, "Why norms stay in fp32, range: rms_norm of 64");
  EXPECT_HAS(notes, "Why norms stay in fp32, precision: bf16");
  EXPECT_LACKS(notes, "stops growing") << "no record says so";
}

TEST_F(PrecisionRows, ModelsAreRowsOfTheModelStudyBesideFp32) {
  std::vector<Record> records;
  for (const ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed})
    records.push_back(run(ModelWorkload{.config = {.name = "tiny",
                                                   .d_model = 16,
                                                   .d_ff = 24,
                                                   .layers = 1,
                                                   .heads = 2,
                                                   .vocabulary = 40,
                                                   .batch_size = 1,
                                                   .context_length = 8},
                                        .precision = precision,
                                        .mode = Mode::vanilla}));
  const std::vector<PrecisionModelRow> rows = precision_model_rows(records);
  ASSERT_EQ(rows.size(), 2u);
  for (const PrecisionModelRow& row : rows) {
    EXPECT_EQ(row.record->status, Status::ok) << row.record->error;
    EXPECT_EQ(row.record->study, "precision");
    EXPECT_GT(row.forward_ms.value_or(0), 0);
    EXPECT_GT(row.backward_ms.value_or(0), 0);
    EXPECT_TRUE(row.optimizer_ms.has_value());
    EXPECT_GT(row.peak_mib.value_or(0), 0);
  }
  EXPECT_FALSE(rows[0].loss_error.has_value());
  ASSERT_TRUE(rows[1].loss_error.has_value());
  EXPECT_GT(*rows[1].loss_error, 0);
  EXPECT_LT(*rows[1].loss_error, 0.02);
  EXPECT_HAS(joined(precision_notes(records)), "mixed against fp32");
  ReportInput input{.records = records};
  for (Record& record : input.records)
    record.disturbance = Disturbance{.window_s = 1, .processors = 2, .other_cores = 1.5};
  EXPECT_EQ(precision_section(report_context(input)).certainty.level, Certainty::Level::disturbed);
}

TEST_F(PrecisionRows, TheAnswerOfAReportIsTheConclusionFromItsSums) {
  using enum FloatFormat;
  ReportInput input;
  for (const FloatFormat sums : {fp32, fp16})
    input.records.push_back(
        run(RoundedReduction{.op = ReducedOp::repeated, .values = fp16, .accumulator = sums}));
  const ReportSection section = precision_section(report_context(input));
  EXPECT_TRUE(section.answer.starts_with("The accumulator matters more than the values: "));
  EXPECT_TRUE(section.answer.ends_with(" in an fp16 sum as in an fp32 one.")) << section.answer;
  input.records.pop_back();
  EXPECT_EQ(precision_section(report_context(input)).answer,
            precision_notes(input.records).front() + ".");
}

TEST_F(PrecisionRows, AReportHasChartsOfErrorsAndTables) {
  using enum FloatFormat;
  ReportInput input;
  for (const int64_t length : {64, 512}) {
    input.records.push_back(run(RoundedReduction{
        .op = ReducedOp::sum, .values = bf16, .accumulator = bf16, .length = length}));
    input.records.push_back(run(RoundedReduction{
        .op = ReducedOp::rms_norm, .values = bf16, .accumulator = bf16, .length = length}));
  }
  input.records.push_back(run(DtypeFlow{}));
  const ReportSection section = precision_section(report_context(input));
  ASSERT_EQ(section.views.size(), 2u);
  EXPECT_EQ(section.views[0].charts.at(0).series.at(0).points.size(), 2u);
  EXPECT_EQ(section.tables.size(), 3u);
  EXPECT_FALSE(section.sentences.empty());
}

}  // namespace
}  // namespace ridgeline::precision_study_test
