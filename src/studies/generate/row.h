// One row of the generate study: prefill and decode of a prompt by one implementation.
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

#include "base/temporary.h"
#include "measure/record.h"
#include "measure/roofline_model.h"
#include "studies/generate/generator.h"
#include "studies/generate/job.h"
#include "studies/peers/peers.h"
#include "studies/row.h"
#include "studies/study.h"

namespace ridgeline {

struct GenerateOptions {
  // The protocol is of prefill, the seed of random weights and sampled tokens.
  RowOptions row = {.protocol = {.warmups = 1, .iterations = 3}};
  const Roofline* roofline = nullptr;  // Roofline::for_reading(); null: no roof shares
  std::function<void(std::string_view)> print = {};  // called with the text as it comes
};

// What distinguishes the rows of a job.
struct GenerateRow {
  Mode mode = Mode::compiled;
  int64_t batch_size = 1;
  std::string peer = {};  // another library; empty: ours
  auto operator<=>(const GenerateRow&) const = default;
};
std::string_view implementation_of(const GenerateRow& row);
std::string label(const GenerateJob& job, const GenerateRow& row);

// Generated text is untrusted: replaces control characters that a terminal would obey.
std::string for_terminal(std::string_view text);

class GenerateStudy {
 public:
  // The job must outlive the study.
  GenerateStudy(const GenerateJob& job, Device& device, GenerateOptions options);

  // Plans the row, to predict its memory.
  Record describe(const GenerateRow& row, const Record& blank);
  double expected_s(const GenerateRow& row, const Record& described) const;
  // Returns nullopt if interrupted.
  std::optional<Record> run(const GenerateRow& row, Record described);

 private:
  GeneratorOptions generator_options(const GenerateRow& row) const;
  std::optional<Record> run_peer(const GenerateRow& row, Record described);
  // The folder with config.json and weights for other libraries; written on first use if needed.
  const std::filesystem::path& weights_folder();
  // Records how many tokens of a peer equal ours, up to the first that differs.
  void count_equal_tokens(const GenerateRow& row, Record& record) const;
  void decode(Generator& generator, const std::vector<int32_t>& first, Record& record);
  void derive(const GenerateRow& row, Record& record) const;

  const GenerateJob& job_;
  Device& device_;
  GenerateOptions options_;
  std::map<GenerateRow, std::unique_ptr<Generator>> planned_;
  std::map<int64_t, std::vector<int32_t>> ours_;  // tokens of our first row, by batch size
  std::optional<Peers> peers_;
  std::filesystem::path folder_;
  std::optional<TemporaryDirectory> written_;
};

}  // namespace ridgeline
