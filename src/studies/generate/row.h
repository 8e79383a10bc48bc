// One row of generate: a prompt taken in and continued by one implementation.
//
//   GenerateStudy study(job, device, {.print = print_text});
//   const GenerateRow row{.mode = Mode::compiled, .batch_size = 4};
//   Record record = study.run(row, study.describe(row, blank)).value();
#pragma once

#include <compare>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "measure/record.h"
#include "measure/roofline_model.h"
#include "studies/generate/generator.h"
#include "studies/generate/job.h"
#include "studies/study.h"

namespace ridgeline {

struct GenerateOptions {
  Protocol protocol = {.warmups = 1, .iterations = 3};  // of the prompt
  uint64_t seed = 42;                                   // of weights and tokens that are drawn
  Json settings = Json::object();
  const Roofline* roofline = nullptr;  // of this device; null: no shares of it
  std::function<bool()> interrupted = {};
  StageHook stage = {};
  std::function<void(std::string_view)> print = {};  // told the text as it comes
};

// What tells the rows of a job apart.
struct GenerateRow {
  Mode mode = Mode::compiled;
  int64_t batch_size = 1;
  auto operator<=>(const GenerateRow&) const = default;
};
std::string label(const GenerateJob& job, const GenerateRow& row);

class GenerateStudy {
 public:
  // The job must outlive this.
  GenerateStudy(const GenerateJob& job, Device& device, GenerateOptions options);

  // Plans, to know the memory it takes.
  Record describe(const GenerateRow& row, const Record& blank);
  double expected_s(const GenerateRow& row, const Record& described) const;
  // Empty when interrupted.
  std::optional<Record> run(const GenerateRow& row, Record described);

 private:
  std::unique_ptr<Generator> make_generator(const GenerateRow& row) const;
  void decode(Generator& generator, const std::vector<int32_t>& first, Record& record);
  void derive(const GenerateRow& row, const Generator& generator, Record& record) const;

  const GenerateJob& job_;
  Device& device_;
  GenerateOptions options_;
  std::map<GenerateRow, std::unique_ptr<Generator>> planned_;
};

}  // namespace ridgeline
