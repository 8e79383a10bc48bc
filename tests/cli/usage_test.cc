// What a wrong command line is answered with: a message that names the value, exit 2, nothing done.
#include <gtest/gtest.h>

#include <algorithm>

#include "cli/run_ridgeline.h"

namespace ridgeline {
namespace {

struct BadUsage {
  std::string name;
  Arguments arguments;
  std::string named;  // what the message must contain
};

void PrintTo(const BadUsage& bad, std::ostream* out) {
  for (const std::string& argument : bad.arguments) *out << argument << ' ';
}

std::string name_of(const ::testing::TestParamInfo<BadUsage>& info) {
  return info.param.name;
}

class BadUsageTest : public ::testing::TestWithParam<BadUsage> {};

TEST_P(BadUsageTest, IsNamedAndNothingHappens) {
  const Sandbox sandbox;
  const Finished run = sandbox.run(GetParam().arguments, {.patience = std::chrono::seconds{20}});
  EXPECT_EQ(run.exit_code, 2) << run.err;
  EXPECT_TRUE(contains(run.err, GetParam().named)) << run.err;
  EXPECT_EQ(run.out, "");
  EXPECT_TRUE(sandbox.is_empty()) << "something was written";
}

const std::string kTwoToThe62 = "4611686018427387904";
const std::string kTenToThe12 = "1000000000000";

INSTANTIATE_TEST_SUITE_P(
    CommandLine, BadUsageTest,
    ::testing::Values(BadUsage{"NoCommand", {}, "subcommand is required"},
                      BadUsage{"UnknownCommand", {"atention"}, "atention"},
                      BadUsage{"UnknownFlag", {"attention", "--sequence", "16"}, "--sequence"},
                      BadUsage{"UnknownFlagOfMemory", {"memory", "--sequence", "16"}, "--sequence"},
                      BadUsage{"UnknownFlagOfDoctor", {"doctor", "--seq-len", "16"}, "--seq-len"},
                      BadUsage{"UnknownFlagOfStudy", {"study", "--seq-len", "16"}, "--seq-len"},
                      BadUsage{"StrayWord", {"attention", "fast"}, "fast"},
                      BadUsage{"FolderWithoutAName",
                               {"attention", "--seq-len", "16", "--results-dir=", "--dry-run"},
                               "--results-dir= has no value"},
                      BadUsage{"NumberOfAFlag", {"attention", "--dry-run=0x10"}, "--dry-run=0x10"},
                      BadUsage{"NegativeFlag", {"model", "--resume=-1"}, "--resume=-1"},
                      BadUsage{"ExponentOfAFlag", {"gemm", "--list=1e1"}, "--list=1e1"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Choices, BadUsageTest,
    ::testing::Values(
        BadUsage{"Dtype", {"attention", "--dtype", "fp7"}, "'fp7'"},
        BadUsage{"DtypeAmongGoodOnes", {"attention", "--dtype", "fp32,fp7"}, "'fp7'"},
        BadUsage{"DtypeOfMemory", {"memory", "--dtype", "fp7"}, "'fp7'"},
        BadUsage{"Preset", {"attention", "--preset", "cs337"}, "'cs337'"},
        BadUsage{"Implementation", {"attention", "--impl", "flush"}, "'flush'"},
        BadUsage{"ImplementationList", {"attention", "--impl", "naive,flush"}, "'flush'"},
        BadUsage{"Backward", {"attention", "--backward", "no-pass"}, "'no-pass'"},
        BadUsage{"Device", {"attention", "--device", "tpu"}, "'tpu'"},
        BadUsage{"DeviceNumber", {"kernel", "--device", "cuda:x"}, "'cuda:x'"},
        BadUsage{"Tuning", {"attention", "--tune", "hard"}, "hard"},
        BadUsage{"Mode", {"kernel", "--device", "cpu", "--mode", "tepid"}, "'tepid'"},
        BadUsage{"Shape", {"kernel", "--device", "cpu", "--shape", "8,4,128"}, "'8,4,128'"},
        BadUsage{"ZeroShape", {"kernel", "--device", "cpu", "--shape", "8,4,0,64"}, "'8,4,0,64'"},
        BadUsage{"DtypeOfKernel", {"kernel", "--device", "cpu", "--dtype", "fp7"}, "'fp7'"},
        BadUsage{"OutputOfKernel", {"kernel", "--output", "table.xlsx"}, ".xlsx"},
        BadUsage{"DeviceOfMemory", {"memory", "--device", "tpu"}, "'tpu'"},
        BadUsage{"OutputEnding", {"attention", "--output", "table.xlsx"}, ".xlsx"},
        BadUsage{"OutputWithoutEnding", {"attention", "--output", "table"}, "table"},
        BadUsage{"LossScaleOfAttention",
                 {"profile", "--attention", "--loss-scale", "8", "--dry-run"},
                 "--loss-scale excludes --attention"},
        BadUsage{"LossScaleOfAttentionsMemory",
                 {"memory", "--loss-scale", "8", "--dry-run"},
                 "--loss-scale requires --model-size"}),
    name_of);

// Near misses: what may have been meant.
INSTANTIATE_TEST_SUITE_P(
    DidYouMean, BadUsageTest,
    ::testing::Values(
        BadUsage{"Command", {"atention"}, "did you mean 'attention'?"},
        BadUsage{"Flag", {"attention", "--seqlen", "16"}, "did you mean --seq-len?"},
        BadUsage{"FlagWithValue", {"attention", "--batchsize=4"}, "did you mean --batch-size?"},
        BadUsage{"OneDash", {"attention", "-seq-len", "16"}, "did you mean --seq-len?"},
        BadUsage{"PartOfAFlag", {"model", "--iterations", "3"}, "did you mean --num-iterations?"},
        BadUsage{"FlagOfHyperfine", {"kernel", "--warmup", "3"}, "did you mean --num-warmup?"},
        BadUsage{"Implementation", {"attention", "--impl", "flahs"}, "did you mean 'flash'?"},
        BadUsage{"Peer", {"attention", "--impl", "torch.spda"}, "did you mean 'torch.sdpa'?"},
        BadUsage{"Product", {"gemm", "--device", "cpu", "--impl", "libary"}, "'library'?"},
        BadUsage{"ImplementationOfAModel", {"model", "--impl", "compile"}, "'compiled'?"},
        BadUsage{"Preset", {"attention", "--preset", "leaderbord"}, "'leaderboard'?"},
        BadUsage{"Size", {"model", "--model-size", "smal"}, "did you mean 'small'?"},
        BadUsage{"Dtype", {"attention", "--dtype", "bf61"}, "did you mean 'bf16'?"},
        BadUsage{"Scenario", {"model", "--scenario", "fwd_bwd"}, "did you mean 'fwd-bwd'?"},
        BadUsage{"Mode", {"kernel", "--device", "cpu", "--mode", "clod"}, "'cold'?"},
        BadUsage{"ModeOfGemm", {"gemm", "--mode", "clod"}, "did you mean 'cold'?"},
        BadUsage{"Tuning", {"attention", "--tune", "ful"}, "did you mean 'full'?"},
        BadUsage{"Backward", {"kernel", "--device", "cpu", "--backward", "twopass"}, "'two-pass'?"},
        BadUsage{"Shell", {"completion", "zhs"}, "did you mean 'zsh'?"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Sizes, BadUsageTest,
    ::testing::Values(
        BadUsage{"ZeroSequence", {"attention", "--seq-len", "0"}, "0"},
        BadUsage{"ZeroAmongGoodOnes", {"attention", "--seq-len", "16,0,32"}, "0 is not a size"},
        BadUsage{"NegativeSequence", {"attention", "--seq-len", "-5"}, "-5"},
        BadUsage{"WordSequence", {"attention", "--seq-len", "long"}, "'long'"},
        BadUsage{"EmptySequence", {"attention", "--seq-len", ""}, "--seq-len"},
        BadUsage{"FractionalSequence", {"attention", "--seq-len", "16.5"}, "'16.5'"},
        BadUsage{"MissingSequence", {"attention", "--seq-len"}, "--seq-len"},
        BadUsage{"TenToThe30Sequence", {"attention", "--seq-len", "1e30"}, "1e30"},
        BadUsage{"TwentyDigitSequence",
                 {"attention", "--seq-len", "99999999999999999999"},
                 "99999999999999999999"},
        BadUsage{"TwoToThe62Sequence", {"attention", "--seq-len", kTwoToThe62}, kTwoToThe62},
        BadUsage{"TenToThe12Sequence", {"attention", "--seq-len", kTenToThe12}, kTenToThe12},
        BadUsage{
            "LargeAmongGoodOnes", {"attention", "--seq-len", "16," + kTenToThe12}, kTenToThe12},
        BadUsage{"BytesBeyond2To63",
                 {"attention", "--seq-len", "268435456", "--batch-size", "16", "--d-model", "16"},
                 "268435456"},
        BadUsage{"ZeroBatch", {"attention", "--batch-size", "0"}, "0"},
        BadUsage{"TwoToThe62Batch", {"attention", "--batch-size", kTwoToThe62}, kTwoToThe62},
        BadUsage{"ZeroWidth", {"attention", "--d-model", "0"}, "0"},
        BadUsage{"TwoToThe62Width", {"attention", "--d-model", kTwoToThe62}, kTwoToThe62},
        BadUsage{"NegativeHeads", {"attention", "--heads", "-1"}, "-1"},
        BadUsage{"BatchTimesHeadsBeyond2To63",
                 {"attention", "--heads", kTwoToThe62, "--batch-size", "8"},
                 kTwoToThe62},
        BadUsage{"ZeroSequenceOfMemory", {"memory", "--seq-len", "0"}, "0"},
        BadUsage{"NegativeWidthOfMemory", {"memory", "--d-model", "-1"}, "-1"},
        BadUsage{"TenToThe30OfMemory", {"memory", "--seq-len", "1e30"}, "1e30"},
        BadUsage{"TwoToThe62OfMemory", {"memory", "--seq-len", kTwoToThe62}, kTwoToThe62},
        BadUsage{"TenToThe12OfMemory", {"memory", "--seq-len", kTenToThe12}, kTenToThe12}),
    name_of);

Arguments with_overrides(const Arguments& arguments) {
  return arguments + Arguments{"--d-model", "8", "--d-ff",       "8", "--layers",         "1",
                               "--heads",   "1", "--vocabulary", "9", "--context-length", "2"};
}

INSTANTIATE_TEST_SUITE_P(
    EqualRows, BadUsageTest,
    ::testing::Values(
        BadUsage{"Models", with_overrides({"model", "--model-size", "small,medium"}),
                 "two rows are the same: custom context=2"},
        BadUsage{"Profiles", with_overrides({"profile", "--model-size", "small,medium"}),
                 "two rows are the same: custom context=2"},
        BadUsage{"Timelines",
                 with_overrides({"memory", "--timeline", "--model-size", "small,medium"}),
                 "two rows are the same: custom context=2"},
        BadUsage{"Costs", with_overrides({"cost", "layer", "--model-size", "small,medium"}),
                 "two rows are the same: "},
        BadUsage{"Bytes",
                 {"comm", "--size", "1MB,1000KB", "--ranks", "2", "--backend", "threads"},
                 "two rows are the same: threads all-reduce 977 KiB"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Quantities, BadUsageTest,
    ::testing::Values(
        BadUsage{"WordMemory", {"attention", "--memory-budget", "lots"}, "'lots'"},
        BadUsage{"NegativeMemory", {"attention", "--memory-budget", "-1"}, "'-1'"},
        BadUsage{"UnitlessNonsense", {"attention", "--memory-budget", "4XiB"}, "'4XiB'"},
        BadUsage{"HugeMemory", {"attention", "--memory-budget", "1e30"}, "'1e30'"},
        BadUsage{"MemoryOfStudy", {"study", "--memory-budget", "lots"}, "'lots'"},
        BadUsage{"WordTime", {"attention", "--time-budget", "soon"}, "'soon'"},
        BadUsage{"NegativeTime", {"attention", "--time-budget", "-3s"}, "'-3s'"},
        BadUsage{"EndlessTime", {"attention", "--time-budget", "inf"}, "'inf'"},
        BadUsage{"TimeOfStudy", {"study", "--time-budget", "soon"}, "'soon'"},
        BadUsage{"NoTime", {"attention", "--time-budget", "0s"}, "--time-budget '0s'"},
        BadUsage{"NoTimeOfRoofline", {"roofline", "--time-budget", "0"}, "--time-budget '0'"},
        BadUsage{"NoTimeOfModel", {"model", "--time-budget", "0s"}, "--time-budget '0s'"},
        BadUsage{"NoTimeOfStudy", {"study", "--time-budget", "0ms"}, "--time-budget '0ms'"},
        BadUsage{"HalfAPairOfFormats", {"precision", "--pair", "fp16"}, "'fp16' is not a pair"},
        BadUsage{"UnknownFormat", {"precision", "--pair", "fp16/fp8"}, "fp64, fp32, fp16, bf16"},
        BadUsage{"NoMagnitude", {"precision", "--magnitude", "0"}, "--magnitude '0'"},
        BadUsage{"EndlessSum", {"precision", "--length", "99999999"}, "--length 99999999"},
        BadUsage{"FewRunsOfNoise",
                 {"noise", "--runs", "10", "--", "attention", "--seq-len", "16"},
                 "10"},
        BadUsage{"NoMemory", {"attention", "--memory-budget", "0"}, "--memory-budget '0'"},
        BadUsage{"NoMemoryOfMemory", {"memory", "--memory-budget", "0GiB"}, "'0GiB'"},
        BadUsage{"LessThanAByte", {"frontier", "--memory-budget", "0.5"}, "'0.5'"},
        BadUsage{"MemoryWithoutAUnit",
                 {"attention", "--memory-budget", "4"},
                 "--memory-budget '4' has no unit: 4 bytes? 4GiB?"},
        BadUsage{"FractionWithoutAUnit", {"study", "--memory-budget", "1.5"}, "1.5GiB?"},
        BadUsage{"ZeroIterations", {"attention", "--num-iterations", "0"}, "0"},
        BadUsage{"ManyIterations", {"attention", "--num-iterations", "99999"}, "99999"},
        BadUsage{"NegativeWarmups", {"attention", "--num-warmup", "-1"}, "-1"},
        BadUsage{"ManyWarmups", tiny_attention({"--seq-len", "16"}, {.warmups = "30000"}), "30000"},
        BadUsage{"ZeroThreads", {"attention", "--threads", "0"}, "0"},
        BadUsage{"NegativeSeed", {"attention", "--seed", "-1"}, "'-1'"},
        BadUsage{"WordSeed", {"attention", "--seed", "lucky"}, "lucky"}),
    name_of);

INSTANTIATE_TEST_SUITE_P(
    Repetitions, BadUsageTest,
    ::testing::Values(
        BadUsage{"Implementation", {"attention", "--impl", "naive,naive"}, "'naive' twice"},
        BadUsage{"SpacedSize", {"attention", "--seq-len", "16", "32", "16"}, "'16' twice"},
        BadUsage{"FlagGivenAgain", {"frontier", "--dtype=fp32", "--dtype=fp32"}, "'fp32' twice"},
        BadUsage{"Shape", {"gemm", "--shape", "1,2,3", "--shape", "1,2,3"}, "'1,2,3' twice"},
        BadUsage{"Scenario", {"model", "--scenario", "forward,forward"}, "'forward' twice"}),
    name_of);

// What would be passed over in silence is refused.
INSTANTIATE_TEST_SUITE_P(
    WithoutEffect, BadUsageTest,
    ::testing::Values(
        BadUsage{"EmptyBaseline", {"attention", "--save-baseline", ""}, "--save-baseline"},
        BadUsage{"FigureOfAPage", {"report", "-o", "r.html", "--figure", "f"}, "'r.html'"},
        BadUsage{"NothingToExplain", {"attention", "--impl", "flash", "--explain"}, "--explain"},
        BadUsage{"BaselinesOfOne", {"history", "--baselines", "--impl", "flash"}, "--baselines"},
        BadUsage{"OutputOfAnImport", {"history", "--import", "a", "--output", "b.md"}, "--output"},
        BadUsage{"TextOfAHistory", {"history", "--output", "h.txt"}, "expected .csv or .md"},
        BadUsage{"RecordsOfAHistory", {"history", "--output", "h.jsonl"}, "expected .csv or .md"},
        BadUsage{"StepAboveTheEnd",
                 {"frontier", "--max-seq-len", "100", "--step", "128"},
                 "--max-seq-len 100 is below --step 128"}),
    name_of);

// One style: who speaks, what is wrong, and on the next line what to do.
TEST(CommandLine, EveryErrorHasTheSameShape) {
  const Sandbox sandbox;
  for (const Arguments& arguments :
       {Arguments{}, Arguments{"atention"}, Arguments{"attention", "--seqlen", "16"},
        Arguments{"attention", "fast"}, Arguments{"attention", "--seq-len", "0"},
        Arguments{"attention", "--seq-len"}, Arguments{"attention", "--threads", "0"},
        Arguments{"attention", "--seed", "lucky"}, Arguments{"attention", "--tune", "hard"},
        Arguments{"attention", "--impl", "flush"}, Arguments{"kernel", "--source", "a.cu"},
        Arguments{"memory", "--model-size", "small", "--seq-len", "16"},
        Arguments{"attention", "--memory-budget", "4"}, Arguments{"completion", "csh"}}) {
    const Finished run = sandbox.run(arguments);
    EXPECT_EQ(run.exit_code, 2) << run.err;
    EXPECT_TRUE(run.err.starts_with("ridgeline: ")) << run.err;
    EXPECT_TRUE(contains(run.err, "\n  next step: ")) << run.err;
    EXPECT_EQ(std::count(run.err.begin(), run.err.end(), '\n'), 2) << run.err;
  }
}

TEST(CommandLine, BytesWithAndWithoutAUnitAreUnderstood) {
  const Sandbox sandbox;
  for (const char* budget : {"2097152", "2097152B", "2MiB"}) {
    const Finished run = sandbox.run({"doctor", "--memory-budget", budget});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_TRUE(contains(run.out, "2.00 MiB")) << budget << run.out;
  }
}

TEST(CommandLine, AFolderForKernelsThatStaysEmptyIsTold) {
  const Sandbox sandbox;
  const Finished run =
      sandbox.run(tiny_attention({"--impl", "flash", "--seq-len", "16", "--d-model", "16"}) +
                  Arguments{"--dump-kernels", "dumped"});
  EXPECT_EQ(run.exit_code, 0) << run.err;
  EXPECT_TRUE(contains(run.err, "no kernel was generated")) << run.err;
}

TEST(CommandLine, AGpuThatIsNotThereIsExit4) {
  const Sandbox sandbox;
  for (const std::string command : {"attention", "kernel", "memory", "study"}) {
    const Finished run = sandbox.run({command, "--device", "cuda"}, without_cuda());
    EXPECT_EQ(run.exit_code, 4) << command;
    EXPECT_TRUE(contains(run.err, "--device cuda: ")) << run.err;
    EXPECT_TRUE(contains(run.err, "use --device cpu")) << run.err;
  }
  EXPECT_TRUE(sandbox.is_empty());
}

TEST(CommandLine, HelpShowsExamplesAndExitCodes) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"--help"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_EQ(run.err, "");
  for (const char* part :
       {"attention", "kernel", "memory", "doctor", "study", "Examples:", "Exit codes:"})
    EXPECT_TRUE(contains(run.out, part)) << part;
}

TEST(CommandLine, EveryCommandHasHelp) {
  const Sandbox sandbox;
  for (const std::string command : {"attention", "kernel", "memory", "doctor", "study"}) {
    const Finished run = sandbox.run({command, "--help"});
    EXPECT_EQ(run.exit_code, 0) << command;
    EXPECT_TRUE(contains(run.out, "--memory-budget")) << run.out;
  }
}

TEST(CommandLine, TheFlagsThatScriptsKnowAreInTheHelp) {
  const Finished run = Sandbox().run({"attention", "--help"});
  for (const char* flag :
       {"--impl", "--preset", "--batch-size", "--d-model", "--seq-len", "--heads", "--causal",
        "--dtype", "--num-warmup", "--num-iterations", "--device", "--output", "--resume",
        "--dry-run", "--list", "--memory-budget", "--time-budget"})
    EXPECT_TRUE(contains(run.out, flag)) << flag;
}

TEST(CommandLine, VersionIsOneLine) {
  const Finished run = Sandbox().run({"--version"});
  EXPECT_EQ(run.exit_code, 0);
  EXPECT_TRUE(run.out.starts_with("ridgeline ")) << run.out;
  EXPECT_EQ(run.out.find('\n'), run.out.size() - 1);
}

TEST(CommandLine, ListNamesWhatCanBeChosenAndRunsNothing) {
  const Sandbox sandbox;
  const Finished run = sandbox.run({"attention", "--list"});
  EXPECT_EQ(run.exit_code, 0);
  for (const char* choice : {"naive", "flash", "cs336", "leaderboard", "fp32", "bf16", "fp16"})
    EXPECT_TRUE(contains(run.out, choice)) << choice;
  EXPECT_TRUE(sandbox.is_empty());
}

}  // namespace
}  // namespace ridgeline
