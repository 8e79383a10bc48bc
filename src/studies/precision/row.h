// One row of the precision study: an error, the dtypes of a model's stages, a model's times in one
// precision, or a training.
//
//   PrecisionStudy study(device, options);
//   Record record = study.run(workload, study.describe(workload, blank)).value();
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "studies/model/row.h"
#include "studies/precision/arithmetic.h"
#include "studies/precision/flow.h"
#include "studies/precision/training.h"

namespace ridgeline {

enum class PrecisionPart : uint8_t { accumulate, norm, flow, compare, training };

struct PrecisionPartInfo {
  PrecisionPart part;
  std::string_view name;
  std::string_view summary;
};
extern const Choices<PrecisionPartInfo> kPrecisionParts;

// The alternative determines the part; a reduction's op distinguishes the first two.
using PrecisionWorkload = std::variant<RoundedReduction, DtypeFlow, ModelWorkload, TrainingRun>;
PrecisionPart part_of(const PrecisionWorkload& workload);
std::string label(const PrecisionWorkload& workload);

// "fp16/fp32": values in fp16, every operation on them rounded to fp32.
std::string pair_name(const RoundedReduction& reduction);

class PrecisionStudy {
 public:
  // `options` apply to the models of the part compare.
  PrecisionStudy(Device& device, ModelStudyOptions options);

  Record describe(const PrecisionWorkload& workload, const Record& blank) const;
  double expected_s(const PrecisionWorkload& workload, const Record& described) const;
  std::optional<Record> run(const PrecisionWorkload& workload, Record described);

 private:
  Device& device_;
  ModelStudyOptions options_;
  ModelStudy models_;
};

}  // namespace ridgeline
