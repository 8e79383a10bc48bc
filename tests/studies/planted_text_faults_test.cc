// Verification sees faults in the texts of generated kernels: one place of one text is changed, as
// a mistake would, and the row must end as wrong. A sample runs with the quick tests, all of them
// as SlowPlantedTextFaults.
#include <gtest/gtest.h>
#include <unistd.h>

#include <mutex>
#include <set>

#include "base/sha256.h"
#include "codegen/emit.h"
#include "jit/host_compiler.h"
#include "jit/run_child.h"
#include "studies/fault_cases.h"
#include "studies/host_tensors.h"
#include "support/from_environment.h"
#include "support/gpu.h"
#include "support/models.h"
#include "support/text_faults.h"

namespace ridgeline {
namespace {

using testing::FaultCase;
using testing::FaultTally;
using testing::kEveryFault;
using testing::TextFault;

constexpr testing::Excuse kTextExcuses[] = {
    {"preamble: exponential: the wrong base",
     "it only chooses a whole number near x / ln 2, and any near one serves"},
    {"mixed .*preamble: exponential: a wrong coefficient",
     "9e-6 of a result is less than the rounding to 16 bits; fp32 sees it"},
    {"mixed .*mean_rsqrt.*: has another constant",
     "the epsilon of a norm, 1e-5 beside 1, is less than the rounding to 16 bits; fp32 sees it"},
};

constexpr unsigned kPatience = 120;  // seconds for one child

// Compiled ones first: on a CPU the others have no texts.
std::vector<FaultCase> all_cases() {
  std::vector<FaultCase> cases;
  for (const Mode mode : {Mode::compiled, Mode::vanilla})
    for (const ModelPrecision precision : {ModelPrecision::fp32, ModelPrecision::mixed})
      for (const FaultCase& of : testing::fault_cases(mode, precision)) cases.push_back(of);
  return cases;
}

size_t cases_with_texts(const std::string& kind) {
  return kind == "cpu" ? all_cases().size() / 2 : all_cases().size();
}

std::unique_ptr<Device> open_device(const std::string& kind, const std::filesystem::path& cache,
                                    TextHook rewrite) {
  if (kind == "cuda")
    return std::make_unique<CudaDevice>(CudaOptions{
        .budget = Bytes{1 << 30}, .jit = {.cache_dir = cache, .rewrite = std::move(rewrite)}});
  CpuOptions options = testing::fault_cpu(cache);
  options.compiler.rewrite = std::move(rewrite);
  return std::make_unique<CpuDevice>(std::move(options));
}

// Of all that a step leaves.
std::string digest(Device& device, const FaultCase& of) {
  Executable executable =
      testing::model_executable(of.workload(), of.scenario, device, of.optimizer());
  executable.prepare();
  ModelInputs inputs(device, {});
  inputs.fill_unevenly(executable, of.workload().config);
  inputs.set_step(executable, 3, of.optimizer());
  executable.run();
  Sha256 all;
  for (const Output& output : executable.graph().outputs()) {
    std::vector<double> values = read_values(device, executable.output(output.name));
    for (double& value : values) value += 0.0;  // no sign of 0
    all.add_field({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(double)});
  }
  return to_hex(all.finish());
}

// Prints how the study judges a row with the text of one kernel replaced, in a process of its own,
// as it may read anywhere. With no kernel named: leaves the texts of the case in a folder.
TEST(Child, DISABLED_JudgesARow) {
  alarm(kPatience);
  const FaultCase of = all_cases().at(testing::number_from("FAULT_CASE", 0));
  const std::filesystem::path folder = std::getenv("FAULT_FOLDER");
  const char* entry = std::getenv("FAULT_ENTRY");
  bool collects = entry == nullptr;
  std::mutex writing;
  const auto rewrite = [&](const std::string& name, const std::string& text) {
    if (entry != nullptr) return name == entry ? read_text(folder / "fault") : text;
    const std::lock_guard lock(writing);
    if (collects) write_text(folder / "texts" / name, text);
    return text;
  };
  const std::unique_ptr<Device> device =
      open_device(std::getenv("FAULT_DEVICE"), folder / "cache", rewrite);
  fmt::print("digest {}\n", digest(*device, of));
  collects = false;  // the study runs vanilla as well, to compare
  fmt::print("status {}\n", status_name(testing::run_case(*device, of).status));
}

struct TextJudgement {
  std::string status;  // empty: ended by a signal
  std::string digest;
  bool compiles = true;
  std::string said = {};

  bool is_wrong() const { return status == "wrong"; }
};

TextJudgement judge(const std::string& kind, size_t number, const TempDir& folder,
                    const std::string& entry) {
  const ChildResult child = run_child("JudgesARow", {{"FAULT_DEVICE", kind},
                                                     {"FAULT_CASE", std::to_string(number)},
                                                     {"FAULT_FOLDER", folder.path().string()},
                                                     {"FAULT_ENTRY", entry}});
  const auto word_after = [&](const std::string& key) -> std::string {
    const size_t at = child.out.find(key + ' ');
    if (at == std::string::npos) return {};
    const size_t begin = at + key.size() + 1;
    return child.out.substr(begin, child.out.find('\n', begin) - begin);
  };
  return {word_after("status"), word_after("digest"),
          !contains(child.out + child.err, "does not compile"), child.out + child.err};
}

// The entries of earlier cases: their texts were given faults there.
std::set<std::string> entries_before(size_t number) {
  struct Collector : CpuDevice {
    using CpuDevice::CpuDevice;
    std::vector<FusedProgram> compile(std::span<const FusedKernel* const> kernels) override {
      for (const FusedKernel* kernel : kernels) entries.insert(emit_host(*kernel).entry);
      throw Error(ErrorKind::unsupported, "only entries are asked for");
    }
    std::set<std::string> entries;
  };
  Collector device(testing::fault_cpu("off"));
  const std::vector<FaultCase> cases = all_cases();
  for (size_t i = 0; i < number; ++i)
    testing::model_executable(cases[i].workload(), cases[i].scenario, device, cases[i].optimizer())
        .prepare();
  return device.entries;
}

struct PlacedText {
  size_t number;  // of the case
  TextFault fault;
  std::string right;  // digest without it
};

// Adds faults of the texts of a case, whose entries are added to `seen`.
void add_faults(const std::string& kind, size_t number, const TempDir& folder,
                std::set<std::string>& seen, std::vector<PlacedText>& faults) {
  const FaultCase of = all_cases().at(number);
  std::filesystem::remove_all(folder / "texts");
  std::filesystem::create_directories(folder / "texts");
  const TextJudgement right = judge(kind, number, folder, {});
  ASSERT_EQ(right.status, "ok") << of.name() << ": " << right.said;
  std::set<std::filesystem::path> files;
  for (const auto& file : std::filesystem::directory_iterator(folder / "texts"))
    files.insert(file.path());
  for (const std::filesystem::path& file : files) {
    const std::string entry = file.filename();
    // A preamble's fault takes all kernels of a case to be compiled again: those of a whole step,
    // which has them all.
    const bool is_preamble = entry == kPreambleEntry;
    if (is_preamble && of.max_norm == 0) continue;
    // Attention's own texts may wait for each other, and for ever if one is wrong.
    if (entry.starts_with("flash") || (!is_preamble && !seen.insert(entry).second)) continue;
    std::span<const testing::TextRule> rules = testing::kTextRules;
    if (is_preamble) rules = testing::kPreambleRules;
    for (TextFault& fault : testing::text_faults(entry, read_text(file), rules))
      faults.push_back({number, std::move(fault), right.digest});
  }
}

void expect_caught(const std::string& kind, const std::vector<PlacedText>& faults,
                   const TempDir& folder) {
  FaultTally tally;
  std::vector<std::string> refused, ended;
  for (const PlacedText& placed : faults) {
    write_text(folder / "fault", placed.fault.text);
    const TextJudgement found = judge(kind, placed.number, folder, placed.fault.entry);
    const std::string name = fmt::format("{}, {}: {}", all_cases()[placed.number].name(),
                                         placed.fault.entry, placed.fault.what);
    if (!found.compiles)
      refused.push_back(name);
    else if (found.status.empty())
      ended.push_back(name);
    else
      tally.add(name, found.is_wrong(), found.is_wrong() || found.digest != placed.right,
                kTextExcuses);
  }
  tally.print("generated texts, " + kind);
  for (const std::string& each : ended) fmt::print("  ended the process: {}\n", each);
  for (const std::string& each : refused) fmt::print("  does not compile: {}\n", each);
  EXPECT_TRUE(tally.escaped.empty());
  EXPECT_GE(tally.caught, tally.harmless.size());
}

TEST(PlantedTextFaults, AreCaught) {
  if (find_host_compiler().empty()) GTEST_SKIP() << "no C++ compiler on this machine";
  const TempDir folder;
  std::set<std::string> seen;
  std::vector<PlacedText> faults;
  add_faults("cpu", cases_with_texts("cpu") - 1, folder, seen, faults);
  expect_caught("cpu", testing::sample_faults(faults, 6), folder);
}

TEST(PlantedTextFaults, OfAGpuAreCaught) {
  RIDGELINE_NEEDS_GPU();
  const TempDir folder;
  std::set<std::string> seen;
  std::vector<PlacedText> faults;
  add_faults("cuda", cases_with_texts("cuda") / 2 - 1, folder, seen, faults);
  expect_caught("cuda", testing::sample_faults(faults, 6), folder);
}

class SlowPlantedTextFaults : public ::testing::TestWithParam<size_t> {};

TEST_P(SlowPlantedTextFaults, AreCaught) {
  SKIP_UNLESS_ALL_FAULTS_ARE_ASKED_FOR();
  if (find_host_compiler().empty()) GTEST_SKIP() << "no C++ compiler on this machine";
  const TempDir folder;
  std::set<std::string> seen = entries_before(GetParam());
  std::vector<PlacedText> faults;
  add_faults("cpu", GetParam(), folder, seen, faults);
  expect_caught("cpu", faults, folder);
}

INSTANTIATE_TEST_SUITE_P(Slow, SlowPlantedTextFaults,
                         ::testing::Range<size_t>(0, cases_with_texts("cpu")));

TEST(SlowPlantedTextFaultsOfAGpu, AreCaught) {
  SKIP_UNLESS_ALL_FAULTS_ARE_ASKED_FOR();
  RIDGELINE_NEEDS_GPU();
  const TempDir folder;
  std::set<std::string> seen;
  std::vector<PlacedText> faults;
  for (size_t number = 0; number < cases_with_texts("cuda"); ++number)
    add_faults("cuda", number, folder, seen, faults);
  expect_caught("cuda", testing::sample_faults(faults, 60), folder);
}

}  // namespace
}  // namespace ridgeline
