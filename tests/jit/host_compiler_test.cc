// Generated C++ that is compiled on this machine: what is told and what is left for reading.
#include "jit/host_compiler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <optional>

#include "measure/test_support.h"

namespace ridgeline {
namespace {

constexpr const char* kPreamble = "#include <cmath>\n";

std::vector<HostSource> sources_of(int count) {
  std::vector<HostSource> sources;
  for (int i = 0; i < count; ++i) {
    const std::string entry = "answer_" + std::to_string(i);
    sources.push_back(
        {entry, "extern \"C\" int " + entry + "() { return " + std::to_string(i) + "; }\n"});
  }
  return sources;
}

using Told = std::vector<std::pair<size_t, size_t>>;

class HostCompilerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (find_host_compiler().empty()) GTEST_SKIP() << "no C++ compiler on this machine";
  }
  HostCompilerOptions options() {
    return {.cache_dir = directory_ / "cache",
            .dump_dir = directory_ / "dump",
            .compiled = [this](size_t ready, size_t wanted) { told_.emplace_back(ready, wanted); }};
  }

  TempDir directory_;
  Told told_;
};

TEST_F(HostCompilerTest, TellsHowManyAreCompiledAndOnlyOfThoseThatAre) {
  const std::vector<HostSource> sources = sources_of(5);
  const std::vector<void*> functions = HostCompiler(options()).functions(kPreamble, sources);
  ASSERT_EQ(functions.size(), 5u);
  ASSERT_GE(told_.size(), 2u);
  EXPECT_EQ(told_.front(), (std::pair<size_t, size_t>{0, 5}));
  EXPECT_EQ(told_.back(), (std::pair<size_t, size_t>{5, 5}));
  EXPECT_TRUE(std::is_sorted(told_.begin(), told_.end()));
  told_.clear();
  HostCompiler(options()).functions(kPreamble, sources);  // all of them are on disk
  EXPECT_TRUE(told_.empty());
}

// A file is the whole text, also where the machine code came from the cache.
TEST_F(HostCompilerTest, DumpsEachSourceUnderItsEntryReadyToBeCompiled) {
  for (int run = 0; run < 2; ++run) {
    std::filesystem::remove_all(directory_ / "dump");
    const std::vector<HostSource> sources = sources_of(2);
    HostCompiler(options()).functions(kPreamble, sources);
    for (const HostSource& source : sources) {
      const std::string text = read_text(directory_ / "dump" / (source.entry + ".cc"));
      EXPECT_TRUE(text.starts_with("// c++ -std=c++17 -O3")) << text;
      EXPECT_HAS(text, kPreamble);
      EXPECT_HAS(text, source.text);
    }
  }
}

// Here it depends on a library that is gone by then.
TEST_F(HostCompilerTest, ALibraryInTheCacheThatDoesNotLoadIsCompiledAgain) {
  const std::string real = find_host_compiler().string();
  const std::filesystem::path compiler = directory_ / "compiler", needed = directory_ / "needed.so",
                              gone = directory_ / "gone";
  std::ofstream(compiler) << "#!/bin/sh\n"
                          << "[ -e " << gone << " ] && exec " << real << " \"$@\"\n"
                          << real << " -shared -fPIC -x c++ /dev/null -o " << needed << "\n"
                          << "exec " << real << " \"$@\" -Wl,--no-as-needed " << needed << "\n";
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  HostCompilerOptions needing = options();
  needing.compiler = compiler.string();
  const std::vector<HostSource> sources = sources_of(1);
  HostCompiler(needing).functions(kPreamble, sources);
  std::filesystem::rename(needed, gone);
  for (const size_t compiled : {1u, 0u}) {  // and is in the cache from then on
    HostCompiler again(needing);
    const std::vector<void*> functions = again.functions(kPreamble, sources);
    EXPECT_EQ(reinterpret_cast<int (*)()>(functions[0])(), 0);
    EXPECT_EQ(again.compiled(), compiled);
  }
}

TEST_F(HostCompilerTest, ADumpThatCannotBeWrittenIsAnError) {
  std::ofstream(directory_ / "dump").put('x');  // a file where the folder should be
  EXPECT_ERROR(HostCompiler{options()}, ErrorKind::usage, "--dump-kernels");
}

// A compiler that says nothing is at fault, and not our text: whoever asked can do without. One
// that has words has found an error of ours.
TEST_F(HostCompilerTest, ACompilerThatFailsIsNamedWithHowItEnded) {
  struct Failure {
    const char* script;
    ErrorKind kind;
    const char* part;
  };
  const Failure failures[] = {
      {"exit 7", ErrorKind::unsupported, "ended with exit code 7 without a word"},
      {"kill -9 $$", ErrorKind::unsupported, "ended with signal 9 (Killed) without a word"},
      {"exit 0", ErrorKind::unsupported, "left no library without a word"},
      {"echo strange; exit 1", ErrorKind::internal, "it ended with exit code 1:\nstrange"},
      {"echo no matter", ErrorKind::internal, "it left no library:\nno matter"},
  };
  const std::filesystem::path compiler = directory_ / "compiler";
  HostCompilerOptions broken = options();
  broken.compiler = compiler.string();
  for (const Failure& failure : failures) {
    std::ofstream(compiler) << "#!/bin/sh\n" << failure.script << "\n";
    std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
    EXPECT_ERROR(HostCompiler(broken).functions(kPreamble, sources_of(3)), failure.kind,
                 failure.part);
    EXPECT_ERROR(HostCompiler(broken).functions(kPreamble, sources_of(3)), failure.kind,
                 compiler.string());
  }
}

TEST_F(HostCompilerTest, ACompilerThatHangsIsEndedAndLeavesNothing) {
  const std::filesystem::path compiler = directory_ / "compiler";
  std::ofstream(compiler) << "#!/bin/sh\necho words\nsleep 1000 &\nwait\n";
  std::filesystem::permissions(compiler, std::filesystem::perms::owner_all);
  HostCompilerOptions hanging = options();
  hanging.compiler = compiler.string();
  hanging.limit_s = 0.2;
  // Whoever asked can do without, whatever the compiler has said before it hung.
  EXPECT_ERROR(HostCompiler(hanging).functions(kPreamble, sources_of(3)), ErrorKind::unsupported,
               "it took longer than 200 ms and was ended");
  hanging.limit_s = 600;
  hanging.interrupted = [] { return true; };
  EXPECT_THROW(HostCompiler(hanging).functions(kPreamble, sources_of(3)), Interrupted);
}

// Neither a program with its flags nor a folder, which can be "executed", too.
TEST_F(HostCompilerTest, ACompilerThatIsNoneIsNamed) {
  for (const std::string& name : {std::string("g++ -O2"), directory_.path().string()}) {
    const auto before =
        std::getenv("CXX") ? std::optional<std::string>(std::getenv("CXX")) : std::nullopt;
    setenv("CXX", name.c_str(), 1);
    EXPECT_ERROR(HostCompiler(options()).functions(kPreamble, sources_of(1)),
                 ErrorKind::unsupported, "CXX is set, but '" + name + "'");
    before ? setenv("CXX", before->c_str(), 1) : unsetenv("CXX");
  }
}

}  // namespace
}  // namespace ridgeline
