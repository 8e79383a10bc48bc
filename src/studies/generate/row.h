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

#include "base/temporary.h"
#include "measure/record.h"
#include "measure/roofline_model.h"
#include "studies/generate/generator.h"
#include "studies/generate/job.h"
#include "studies/peers/peers.h"
#include "studies/study.h"

namespace ridgeline {

struct GenerateOptions {
  Protocol protocol = {.warmups = 1, .iterations = 3};  // of the prompt
  uint64_t seed = 42;                                   // of weights and tokens that are drawn
  Json settings = Json::object();
  const Roofline* roofline = nullptr;  // of this device, for reading; null: no shares of it
  std::function<bool()> interrupted = {};
  StageHook stage = {};
  std::function<void(std::string_view)> print = {};  // told the text as it comes
};

// What tells the rows of a job apart.
struct GenerateRow {
  Mode mode = Mode::compiled;
  int64_t batch_size = 1;
  std::string peer = {};  // of another library; empty: ours
  auto operator<=>(const GenerateRow&) const = default;
};
std::string_view implementation_of(const GenerateRow& row);
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
  std::optional<Record> run_peer(const GenerateRow& row, Record described);
  // config.json and weights for other libraries, written when they are first asked for.
  const std::filesystem::path& weights_folder();
  // How many of its tokens are ours, from the first on; of a peer.
  void hold_against_ours(const GenerateRow& row, Record& record) const;
  void decode(Generator& generator, const std::vector<int32_t>& first, Record& record);
  void derive(const GenerateRow& row, const Generator& generator, Record& record) const;

  const GenerateJob& job_;
  Device& device_;
  GenerateOptions options_;
  std::map<GenerateRow, std::unique_ptr<Generator>> planned_;
  std::map<int64_t, std::vector<int32_t>> ours_;  // tokens of the first of our rows, by batch size
  std::optional<Peers> peers_;
  std::filesystem::path folder_;
  std::optional<TemporaryDirectory> written_;
};

}  // namespace ridgeline
