// Small rows of the transformer study that are given faults, and the count of those that were seen.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <regex>
#include <span>
#include <string>
#include <vector>

#include "runtime/cpu_device.h"
#include "studies/model/row.h"
#include "support/from_environment.h"

// Minutes: on request. A sample of the same runs as PlantedFaults and PlantedTextFaults.
#define SKIP_UNLESS_ALL_FAULTS_ARE_ASKED_FOR()                           \
  if (::ridgeline::testing::number_from("RIDGELINE_ALL_FAULTS", 0) == 0) \
  GTEST_SKIP() << "RIDGELINE_ALL_FAULTS=1 plants every one"

namespace ridgeline::testing {

// What one run of the study is about.
struct FaultCase {
  Mode mode;
  ModelPrecision precision;
  Scenario scenario;
  double max_norm = 0;
  AdamWVariant variant = AdamWVariant::cs336;

  // A vocabulary of more than one run of a generated sum.
  ModelWorkload workload() const {
    return {{.name = "faulty",
             .d_model = 32,
             .d_ff = 48,
             .layers = 1,
             .heads = 2,
             .vocabulary = 300,
             .batch_size = 2,
             .context_length = 16},
            precision,
            mode};
  }
  AdamWOptions optimizer() const { return {.variant = variant, .max_norm = max_norm}; }
  std::string name() const {
    return fmt::format("{} {} {}{}", info(mode).name, info(precision).name, info(scenario).name,
                       max_norm > 0 ? fmt::format(" clipped at {}", max_norm) : "");
  }
};

inline std::vector<FaultCase> fault_cases(Mode mode, ModelPrecision precision) {
  return {{mode, precision, Scenario::forward},
          {mode, precision, Scenario::forward_backward},
          {mode, precision, Scenario::full_step},
          {mode, precision, Scenario::full_step, 0.5, AdamWVariant::pytorch}};
}

inline Record run_case(Device& device, const FaultCase& of) {
  ModelStudy study(device, {.row = {.protocol = {.warmups = 1, .iterations = 1}},
                            .scenarios = {of.scenario},
                            .optimizer = of.optimizer()});
  static const MachineFacts machine = collect_machine_facts();
  Record blank;
  blank.machine = machine;
  return study.run(of.workload(), study.describe(of.workload(), blank)).value();
}

inline CpuOptions fault_cpu(const std::filesystem::path& cache) {
  return {.threads = 2, .ledger = {.budget = Bytes{64 << 20}}, .compiler = {.cache_dir = cache}};
}

constexpr size_t kEveryFault = std::numeric_limits<size_t>::max();

// Evenly spread over all.
template <class Fault>
std::vector<Fault> sample_faults(const std::vector<Fault>& all, size_t wanted) {
  wanted = std::min(wanted, all.size());
  std::vector<Fault> chosen;
  for (size_t i = 0; i < wanted; ++i) chosen.push_back(all[i * all.size() / wanted]);
  return chosen;
}

// A fault that is none.
struct Excuse {
  const char* fault;  // a regular expression that is found in its name
  const char* reason;
};

struct FaultTally {
  size_t caught = 0;
  std::vector<std::string> escaped;   // or called wrong without a reason
  std::vector<std::string> harmless;  // with the reason

  // `changes`: whether any result is another because of it.
  void add(const std::string& name, bool is_caught, bool changes, std::span<const Excuse> excuses) {
    if (!changes) {
      (is_caught ? escaped : harmless).push_back(name + ": changes no result");
    } else if (is_caught) {
      ++caught;
    } else {
      const auto excuse = std::ranges::find_if(excuses, [&](const Excuse& each) {
        return std::regex_search(name, std::regex(each.fault));
      });
      if (excuse == excuses.end())
        escaped.push_back(name);
      else
        harmless.push_back(fmt::format("{}: {}", name, excuse->reason));
    }
  }

  void print(const std::string& what) const {
    fmt::print("{}: {} caught, {} escaped, {} are no faults\n", what, caught, escaped.size(),
               harmless.size());
    for (const std::string& each : escaped) fmt::print("  escaped: {}\n", each);
    for (const std::string& each : harmless) fmt::print("  no fault: {}\n", each);
  }
};

}  // namespace ridgeline::testing
