// The profile study as people read it: CSV, tables of one row, modes side by side, and sentences.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "measure/record.h"
#include "report/page/sections.h"
#include "report/terminal/table.h"

namespace ridgeline {

// One line per fold of a record (`by`: phase, category, scope, kernel); a row without a profile has
// one line with its status. Times and invocations are those of one step. What is not known is
// empty, never zero.
Table profile_csv(std::span<const Record> records);

// The folds of one record by phase, category, scope or kernel, largest first, `top` of them.
Table profile_folds(const Record& record, std::string_view by, size_t top);

// One line per record: kernels, invocations, busy time, starts by the host, waiting.
Table profile_modes(std::span<const Record> records);

// "small context 128 batch 4 fp32 full-step, vanilla".
std::string profile_name(const Record& record);

// What the run says about: the kernel that takes most of forward and of backward, what there is
// besides products, products in forward and in a whole step, softmax against products, waiting.
// None where the record does not carry it.
std::vector<std::string> profile_answers(const Record& record);

// Of rows that were profiled both in forward alone and in a full step: how the share of products
// changes from inference to training.
std::vector<std::string> inference_against_training(std::span<const Record> records);

// Where times and predictions come from, what tracing costs, what was lost; each once.
std::vector<std::string> profile_notes(std::span<const Record> records);

// Of reports.
ReportSection profile_section(const ReportContext& context);
ReportSection step_section(const ReportContext& context);

}  // namespace ridgeline
