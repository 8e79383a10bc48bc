// The command in a record gives its row again, in every study.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "cli/build_facts.h"
#include "cli/open_device.h"
#include "cli/parse_flags.h"
#include "measure/test_support.h"
#include "studies/studies.h"

namespace ridgeline::row_commands_test {
namespace {

// The described rows of a command; nothing runs.
std::vector<Record> rows_of_command(const std::string& command) {
  std::istringstream text(command);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.insert(words.begin(), word);
  words.pop_back();  // the program
  const StudyInfo& info = *find_study(words.back());
  words.pop_back();
  DeclaredStudy declared(info);
  CLI::App app;
  add_flags(app, declared.flags);
  app.parse(words);  // takes them in reverse order
  Study& study = *declared.study;
  study.shared.dry_run = true;
  study.check();
  const std::unique_ptr<Device> device = open_device(study.shared.device);
  StudyRun run{.info = info,
               .device = *device,
               .protocol = make_protocol(study.shared.protocol),
               .blank = blank_record(*device),
               .settings = settings_of(study.shared.device, *device),
               .results_dir = "no-results",
               .folder = "no-results",
               .device_words = to_command(study.shared.device, *device)};
  std::vector<Record> records;
  for (const StudyRow& row : study.rows(run)) records.push_back(row.described);
  return records;
}

const std::string kTinyModel =
    " --d-model 16 --layers 1 --heads 2 --context-length 8 --batch-size 2 --impl vanilla,compiled";

// Flags that differ from the defaults wherever rows do.
const std::string kCommands[] = {
    "ridgeline attention --preset study --impl naive,flash --seq-len 16,32 --backward two-pass",
    "ridgeline attention --preset leaderboard --seq-len 16 --num-iterations 3 --no-verify",
    "ridgeline frontier --memory-budget 64MiB --batch-size 1 --step 64 --max-probes 2 --seed 7",
    "ridgeline kernel --shape 1,2,16,8 --shape 2,1,8,8 --mode hot,cold --causal --backward",
    "ridgeline model --scenario forward full-step --accumulate 2 --max-norm 1" + kTinyModel,
    "ridgeline memory --timeline --model-size small --checkpoint-blocks 1" + kTinyModel,
    "ridgeline model --scenario full-step --precision fp32,mixed-fp16 --loss-scale 128" +
        kTinyModel,
    "ridgeline memory --timeline --model-size small --max-norm 1" + kTinyModel,
    "ridgeline memory --timeline --seq-len 16 --causal",
    "ridgeline profile --scenario fwd-bwd --seed 7 --schedule wait=0,warmup=0,active=1" +
        kTinyModel,
    "ridgeline profile --scenario forward,full-step --max-norm 1 --precision fp32,mixed-fp16"
    " --loss-scale 128" +
        kTinyModel,
    "ridgeline profile --attention --seq-len 16,32 --head-dim 8 --dtype bf16",
    "ridgeline gemm --size 16,32 --mode cold --dtype fp32,bf16 --seed 7 --threads 1",
    "ridgeline roofline --size 64 --dtype fp32,bf16 --settle-time 10ms --seed 7 --time-budget 10ms",
    "ridgeline precision --op sum,rms_norm --length 64 --magnitude 10 --seed 7",
    "ridgeline precision --part compare --optimizer pytorch" + kTinyModel,
    "ridgeline cost --d-model 64 --heads 2 --context-length 32 --shape 4,5,6 --shape 7,1,8 --causal"
    " --phase prefill,fwd-bwd --gpu A100 --seed 7 --threads 1",
    "ridgeline cost mlp --d-model 768",
    "ridgeline cost attention --d-model 64 --d-ff 96 --layers 1 --heads 2 --vocabulary 50",
    "ridgeline cost model --model-config 270m --context-length 64",
    "ridgeline decode --layer --prompt-length 16 --batch-size 1,2 --cache on,off --mode hot",
    "ridgeline generate --model-config 270m --random-weights --prompt-ids 2,17 --batch-size 1,2",
    "ridgeline comm --collective all-reduce,broadcast --size 1KB,1001 --backend threads --ranks 2",
    "ridgeline ddp --backend threads --ranks 1,2 --bucket-mb 1,2 --d-model 16 --layers 1 --heads 2"
    " --context-length 8",
    "ridgeline ddp --backend threads --strategy flat --threads 2 --accumulate 2 --context-length 8",
};

TEST(CommandsOfRows, GiveTheRowAgain) {
  std::set<std::string> seen;
  for (const std::string& command : kCommands)
    for (const Record& row : rows_of_command(command)) {
      SCOPED_TRACE(row.command);
      seen.insert(row.study);
      int same = 0;
      for (const Record& again : rows_of_command(row.command)) {
        if (workload_key(again) != workload_key(row)) continue;
        ++same;
        EXPECT_EQ(again.command, row.command);
      }
      EXPECT_EQ(same, 1) << workload_key(row);
    }
  EXPECT_EQ(seen.size(), studies().size());
}

TEST(CommandsOfRows, RepeatWhatIsNoPartOfTheIdentityOfARow) {
  for (const Record& row : rows_of_command(kCommands[0]))
    EXPECT_TRUE(contains(row.command, " --preset study ")) << row.command;
  for (const Record& row :
       rows_of_command("ridgeline roofline --dtype fp32 --size 64 --settle-time 10ms"))
    EXPECT_TRUE(contains(row.command, " --settle-time 10ms")) << row.command;
}

}  // namespace
}  // namespace ridgeline::row_commands_test
