// Verification sees faults of kernels that are compiled ahead: each is given mistakes on purpose,
// and the row must end as wrong. A sample runs with the quick tests, all of them as
// SlowPlantedFaults.
#include "support/planted_faults.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "measure/test_support.h"
#include "studies/attention/row.h"
#include "studies/fault_cases.h"
#include "support/gpu.h"
#include "support/models.h"

namespace ridgeline {
namespace {

using testing::AskFault;
using testing::FaultCase;
using testing::FaultTally;
using testing::Faulty;
using testing::kEveryFault;
using testing::PlantedFault;

constexpr double kNeverReached = 1000;  // a norm

constexpr testing::Excuse kExcuses[] = {
    {"attention_gradient, one node: the first element is 0",
     "the first query sees one key, so the true d_q is 0"},
    {"clipped at 0.5, less, ",
     "the norm is above the limit in the steps that are verified, where it changes no result"},
};

struct PlacedFault {
  FaultCase of;
  PlantedFault fault;
};

// The nodes that a case runs one by one; the others are fused, or mere views.
class Recorder : public CpuDevice {
 public:
  using CpuDevice::CpuDevice;
  void run(const Node& node, std::span<const TensorView> inputs,
           std::span<const TensorView> outputs, void* scratch = nullptr) override {
    nodes[node.op].push_back(node.first_value);
    results[node.op] = std::max(results[node.op], outputs.size());
    CpuDevice::run(node, inputs, outputs, scratch);
  }
  std::map<Op, std::vector<uint32_t>> nodes;
  std::map<Op, size_t> results;
};

std::vector<PlacedFault> faults_of(const FaultCase& of, std::set<Op>& seen,
                                   const std::filesystem::path& cache) {
  Recorder recorder(testing::fault_cpu(cache));
  Executable executable =
      testing::model_executable(of.workload(), of.scenario, recorder, of.optimizer());
  executable.prepare();
  ModelInputs(recorder, {}).fill(executable, of.workload().config);
  executable.run();
  std::vector<PlacedFault> faults;
  for (const auto& [op, nodes] : recorder.nodes) {
    // Ops of an earlier case had theirs there; an optimizer and its clipping differ.
    const bool differs = op == Op::adamw_update || op == Op::less;
    if (!seen.insert(op).second && !differs) continue;
    // All nodes of the op and a single one take turns.
    const auto one = [&nodes = nodes](size_t number) -> std::optional<uint32_t> {
      if (number % 2 == 0) return std::nullopt;
      return nodes[number / 2 % nodes.size()];
    };
    size_t number = 0;
    const size_t results = recorder.results.at(op);
    const size_t outputs = op == Op::adamw_update ? results : std::min<size_t>(3, results);
    for (const testing::ResultFault& fault : testing::result_faults()) {
      // Of AdamW: parameter, moments and copy take turns.
      const size_t output = number % outputs;
      faults.push_back({of, {.op = op, .node = one(number), .result = fault, .output = output}});
      ++number;
    }
    for (const std::span<const AskFault> list : {testing::ask_faults(), testing::adamw_faults()})
      for (const AskFault& fault : list)
        if (fault.op == op) faults.push_back({of, {.op = op, .ask = fault}});
  }
  return faults;
}

struct FaultGroup {
  Mode mode;
  ModelPrecision precision;
  std::string name() const {
    return std::string(info(mode).name) + '_' + std::string(info(precision).name);
  }
};

const std::vector<FaultGroup> kGroups = {{Mode::vanilla, ModelPrecision::fp32},
                                         {Mode::vanilla, ModelPrecision::mixed},
                                         {Mode::compiled, ModelPrecision::fp32},
                                         {Mode::compiled, ModelPrecision::mixed}};

std::vector<PlacedFault> faults_of(const FaultGroup& group, const std::filesystem::path& cache) {
  std::vector<PlacedFault> faults;
  std::set<Op> seen;
  std::vector<FaultCase> cases = testing::fault_cases(group.mode, group.precision);
  cases.push_back(cases.back());
  cases.back().max_norm = kNeverReached;
  for (const FaultCase& of : cases)
    for (PlacedFault& fault : faults_of(of, seen, cache)) faults.push_back(std::move(fault));
  return faults;
}

template <class Device>
void expect_all_caught(Device& device, const std::vector<PlacedFault>& faults,
                       const std::string& what) {
  FaultTally tally;
  for (const PlacedFault& placed : faults) {
    device.plant(placed.fault);
    const Record record = testing::run_case(device, placed.of);
    tally.add(placed.of.name() + ", " + placed.fault.name(), record.status == Status::wrong,
              device.planted(), kExcuses);
  }
  tally.print(what);
  EXPECT_TRUE(tally.escaped.empty());
  EXPECT_GT(tally.caught, 2 * tally.harmless.size());
}

// A few faults of every mode and precision.
template <class Device>
void expect_sample_caught(Device& device, const std::filesystem::path& cache) {
  constexpr size_t kOfEachGroup = 6;
  std::vector<PlacedFault> faults;
  for (const FaultGroup& group : kGroups)
    for (PlacedFault& fault : testing::sample_faults(faults_of(group, cache), kOfEachGroup))
      faults.push_back(std::move(fault));
  expect_all_caught(device, faults, "a sample");
}

TEST(PlantedFaults, OfKernelsAreCaught) {
  const TempDir cache;
  Faulty<CpuDevice> device(testing::fault_cpu(cache / "cache"));
  expect_sample_caught(device, cache / "cache");
}

TEST(PlantedFaults, OfKernelsOfAGpuAreCaught) {
  RIDGELINE_NEEDS_GPU();
  const TempDir cache;
  Faulty<CudaDevice> device(CudaOptions{.budget = Bytes{1 << 30}});
  expect_sample_caught(device, cache / "cache");
}

class SlowPlantedFaults : public ::testing::TestWithParam<FaultGroup> {};

TEST_P(SlowPlantedFaults, OfKernelsAreCaught) {
  SKIP_UNLESS_ALL_FAULTS_ARE_ASKED_FOR();
  const TempDir cache;
  Faulty<CpuDevice> device(testing::fault_cpu(cache / "cache"));
  expect_all_caught(device, faults_of(GetParam(), cache / "cache"), GetParam().name());
}

TEST_P(SlowPlantedFaults, OfKernelsOfAGpuAreCaught) {
  SKIP_UNLESS_ALL_FAULTS_ARE_ASKED_FOR();
  RIDGELINE_NEEDS_GPU();
  const TempDir cache;
  Faulty<CudaDevice> device(CudaOptions{.budget = Bytes{1 << 30}});
  expect_all_caught(device, faults_of(GetParam(), cache / "cache"), GetParam().name());
}

INSTANTIATE_TEST_SUITE_P(Slow, SlowPlantedFaults, ::testing::ValuesIn(kGroups),
                         [](const auto& group) { return group.param.name(); });

// Attention where its gradients cancel: few keys, wide heads.

constexpr testing::ResultFault kOffByLittle = {
    "an element is off by a ten thousandth",
    [](std::vector<float>& v, size_t, DType) { v[v.size() / 2] += 1e-4f; }};

struct PlacedInAttention {
  AttentionConfig config;
  PlantedFault fault;
};

std::vector<PlacedInAttention> faults_with_few_keys() {
  std::vector<PlacedInAttention> faults;
  for (const DType dtype : {DType::f32, DType::bf16})
    for (const int64_t head_dim : {128, 256})
      for (const int64_t seq_len : {1, 2, 4}) {
        const AttentionConfig config{
            .batch_size = 2, .heads = 4, .seq_len = seq_len, .head_dim = head_dim, .dtype = dtype};
        for (const Op op : {Op::attention, Op::attention_gradient}) {
          const size_t outputs = op == Op::attention ? 2 : 3;
          for (size_t output = 0; output < outputs; ++output) {
            // With one key d_q and d_k are roundings of 0, and so is what most faults make of them.
            const bool vanishes = seq_len == 1 && op == Op::attention_gradient && output < 2;
            if (vanishes)
              faults.push_back({config, {.op = op, .result = kOffByLittle, .output = output}});
            for (const testing::ResultFault& fault : testing::result_faults())
              if (!vanishes)
                faults.push_back({config, {.op = op, .result = fault, .output = output}});
          }
          for (const AskFault& fault : testing::ask_faults())
            if (fault.op == op) faults.push_back({config, {.op = op, .ask = fault}});
        }
      }
  return faults;
}

void expect_caught_with_few_keys(size_t wanted) {
  Faulty<CpuDevice> device(testing::fault_cpu("off"));
  const AttentionStudyOptions options{.row = {.protocol = {.warmups = 0, .iterations = 1}}};
  FaultTally tally;
  for (const PlacedInAttention& placed : testing::sample_faults(faults_with_few_keys(), wanted)) {
    device.plant(placed.fault);
    const AttentionWorkload workload{placed.config, "flash"};
    AttentionRunner runner(device, options);
    const Record record = runner.run(workload, runner.describe(workload, {})).value();
    tally.add(label(workload) + ", " + placed.fault.name(), record.status == Status::wrong,
              device.planted(), {});
  }
  tally.print("attention with few keys");
  EXPECT_TRUE(tally.escaped.empty());
  EXPECT_GT(tally.caught, 2 * tally.harmless.size());
}

TEST(PlantedFaults, OfAttentionWithFewKeysAreCaught) {
  expect_caught_with_few_keys(48);
}

TEST(SlowPlantedFaultsOfAttention, WithFewKeysAreCaught) {
  SKIP_UNLESS_ALL_FAULTS_ARE_ASKED_FOR();
  expect_caught_with_few_keys(kEveryFault);
}

}  // namespace
}  // namespace ridgeline
