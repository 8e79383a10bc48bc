// Accounts of caches: formulae by hand, what a run really takes, and contexts that fit to the
// token.
#include <gtest/gtest.h>

#include "base/error.h"
#include "models/gemma3_run.h"
#include "models/transformer_inputs.h"
#include "runtime/cpu_device.h"
#include "studies/generate/row.h"
#include "studies/memory/cache_account.h"
#include "support/expect.h"

namespace ridgeline::memory_study_test {
namespace {

CacheWorkload tiny_cache(int64_t context, int64_t batch_size, Mode mode) {
  return {.config = testing::tiny_gemma(),
          .config_word = "tiny",
          .batch_size = batch_size,
          .context = context,
          .prompt = 7,
          .dtype = DType::f32,
          .mode = mode};
}

TEST(CacheAccount, KeysAndValuesOfThePublishedModels) {
  constexpr int64_t kKib = 1024;
  const auto of = [](const char* name) {
    return gemma3_cache_bytes_per_token(gemma3_config(name), DType::bf16);
  };
  EXPECT_EQ(of("270m").within_window.count, 18 * kKib);
  EXPECT_EQ(of("270m").past_window.count, 3 * kKib);
  EXPECT_EQ(of("1b").within_window.count, 26 * kKib);
  EXPECT_EQ(of("1b").past_window.count, 4 * kKib);
  EXPECT_EQ(of("4b").within_window.count, 136 * kKib);
  EXPECT_EQ(of("4b").past_window.count, 20 * kKib);
  const int64_t expected = 512 * 18 * kKib + (32768 - 512) * 3 * kKib;
  EXPECT_EQ(gemma3_cache_bytes(gemma3_config("270m"),
                               {.batch_size = 2, .capacity = 32768, .dtype = DType::bf16})
                .count,
            2 * expected);
}

// The peak of a run is the predicted one, whatever the caches have room for.
TEST(CacheAccount, TheAccountIsWhatARunTakes) {
  const auto device = testing::cpu();
  for (const Mode mode : {Mode::vanilla, Mode::compiled})
    for (const int64_t batch_size : {1, 3}) {
      const CacheWorkload workload = tiny_cache(64, batch_size, mode);
      GenerateJob job{.config = workload.config, .model = "tiny"};
      job.prompt = {2, 17, 9, 30, 4, 4, 11};
      job.max_new_tokens = 4;
      job.capacity = workload.context;
      job.dtype = workload.dtype;
      GenerateStudy study(
          job, *device, {.row = {.protocol = {.warmups = 0, .min_warmup_s = 0, .iterations = 1}}});
      const GenerateRow row{mode, batch_size};
      const Record record = study.run(row, study.describe(row, {})).value();
      ASSERT_EQ(record.status, Status::ok) << record.error;
      const CacheAccount account = account_cache(workload, *device);
      EXPECT_EQ(account.peak, *record.memory.predicted_peak);
      EXPECT_EQ(account.peak, account.weights + account.cache + account.working);
      EXPECT_LE(record.memory.peak->count, account.peak.count);
      EXPECT_GT(static_cast<double>(record.memory.peak->count),
                0.9 * static_cast<double>(account.peak.count))
          << info(mode).name << " batch " << batch_size;
    }
}

TEST(CacheAccount, TheLongestContextFitsAndOneTokenMoreDoesNot) {
  const auto device = testing::cpu();
  const CacheWorkload workload = tiny_cache(64, 2, Mode::compiled);
  const Bytes budget = account_cache(tiny_cache(40, 2, Mode::compiled), *device).peak;
  const int64_t longest = longest_context(workload, *device, budget);
  EXPECT_GE(longest, 40);
  EXPECT_LE(account_cache(tiny_cache(longest, 2, Mode::compiled), *device).peak, budget);
  EXPECT_GT(account_cache(tiny_cache(longest + 1, 2, Mode::compiled), *device).peak, budget);
  EXPECT_EQ(longest_context(workload, *device, Bytes{int64_t{1} << 40}),
            workload.config.max_positions);
  EXPECT_EQ(longest_context(workload, *device, Bytes{1000}), 0);
  EXPECT_EQ(device->ledger().peak().count, 0) << "nothing is allocated";
}

TEST(CacheAccount, AContextBeyondTheModelIsRefusedByItsPositions) {
  EXPECT_ERROR(expand_caches({.configs = {"270m"}, .contexts = {1024, 32769}}), ErrorKind::usage,
               "32768 positions");
}

}  // namespace
}  // namespace ridgeline::memory_study_test
