// Tables and sentences of the profile study: CSV, folds of one row, modes side by side, answers.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record_values.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

// One line per fold of a record (`by`: phase, category, scope, kernel); a row without a profile has
// one line with its status. Times and invocations are per step. Unknown values are empty.
Table profile_csv(const RecordRefs& records);

// The `top` largest folds of one record by phase, category, scope or kernel, largest first.
Table profile_folds(const Record& record, std::string_view by, size_t top);

// One line per record: kernels, invocations, starts by the host, busy time, waits.
Table profile_modes(const RecordRefs& records);

// "small context 128 batch 4 fp32 full-step, vanilla".
std::string profile_name(const Record& record);

// Sentences on the kernel that takes most of forward and of backward, work other than products,
// products in forward and in a whole step, softmax against products, waits, utilisation and
// threads; none for what the record does not have.
std::vector<std::string> profile_answers(const Record& record);

// For rows that were profiled both in forward alone and in a full step: how the share of products
// changes from inference to training.
std::vector<std::string> inference_against_training(const RecordRefs& records);

// The sources of times and predictions, the cost of tracing, and lost records; each once.
std::vector<std::string> profile_notes(const RecordRefs& records);

ReportSection profile_section(const ReportContext& context);
ReportSection step_section(const ReportContext& context);

}  // namespace ridgeline
