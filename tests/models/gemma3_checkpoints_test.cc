// Logits of checkpoints against those of transformers, for bench/gemma_logits.py: it writes a
// folder for each case, and names the folder of all of them in RIDGELINE_GEMMA_CASES.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "base/larger.h"
#include "compile/executable.h"
#include "models/gemma3_run.h"
#include "models/gemma3_weights.h"
#include "runtime/cpu_device.h"

namespace ridgeline {
namespace {

using Floats = std::vector<float>;

struct Checkpoint {
  explicit Checkpoint(const std::filesystem::path& folder)
      : config(read_gemma3_config(folder / "config.json")),
        weights(open_gemma3_weights(folder, config)),
        expected(folder / "expected.safetensors") {
    const StoredTensor& stored = expected.find("tokens");
    batch = stored.shape[0];
    tokens = stored.shape[1];
    const std::vector<std::byte> bytes = expected.read(stored);
    ids.resize(bytes.size() / sizeof(int32_t));
    std::memcpy(ids.data(), bytes.data(), bytes.size());
    fp32 = expected.read_floats(expected.find("fp32"));
    bf16 = expected.read_floats(expected.find("bf16"));
  }

  Gemma3Config config;
  WeightFiles weights;
  SafetensorsFile expected;
  int64_t batch = 0, tokens = 0;
  std::vector<int32_t> ids;
  Floats fp32, bf16;  // logits [batch, tokens, vocabulary] of transformers
};

void upload_floats(Device& device, const TensorView& to, const Floats& values) {
  testing::upload(device, to, std::vector<double>(values.begin(), values.end()));
}

void upload_model(Device& device, const Executable& executable, const Checkpoint& checkpoint,
                  int64_t positions) {
  for (const Parameter& parameter : gemma3_parameters(checkpoint.config))
    upload_floats(device, executable.input(parameter.name),
                  checkpoint.weights.read_floats(parameter.name));
  for (const Gemma3Layer layer : {Gemma3Layer::full, Gemma3Layer::sliding}) {
    const std::string scope(table_scope(layer));
    if (!executable.has_input(scope + ".cos")) continue;
    const RopeValues values = gemma3_rope_values(checkpoint.config, layer, positions);
    upload_floats(device, executable.input(scope + ".cos"), values.cos);
    upload_floats(device, executable.input(scope + ".sin"), values.sin);
  }
}

Floats whole_sequence(Device& device, const Checkpoint& checkpoint, AttentionForm form, Mode mode,
                      DType dtype) {
  const Graph graph = testing::gemma3_graph(checkpoint.config, {.batch_size = checkpoint.batch,
                                                                .tokens = checkpoint.tokens,
                                                                .dtype = dtype,
                                                                .attention = form});
  Executable executable([&](const Rewrite& forward) { return forward(graph); }, device,
                        {.mode = mode});
  executable.prepare();
  EXPECT_EQ(executable.fallback(), "");
  upload_model(device, executable, checkpoint, checkpoint.tokens);
  device.upload(executable.input("tokens"), checkpoint.ids.data());
  executable.run();
  const std::vector<double> logits = testing::elements(device, executable.output("logits"));
  return {logits.begin(), logits.end()};
}

// Token by token, or in chunks of which the last may be shorter, behind a cache; with a prompt that
// is taken in at once before it.
struct Steps {
  int64_t prompt = 0, chunk = 1;
};
Floats behind_a_cache(Device& device, const Checkpoint& checkpoint, AttentionForm form, Mode mode,
                      DType dtype, const Steps& steps) {
  const auto vocabulary = static_cast<size_t>(checkpoint.config.vocabulary);
  Floats logits(checkpoint.fp32.size());
  const auto options = [&](int64_t tokens) {
    return Gemma3CacheOptions{.batch_size = checkpoint.batch,
                              .tokens = tokens,
                              .capacity = checkpoint.tokens,
                              .chunk = steps.chunk,
                              .dtype = dtype,
                              .attention = form,
                              .last_only = false};
  };
  std::map<std::string, std::vector<char>> state;  // caches and position, from one graph to another
  const auto run = [&](const Graph& graph, int64_t first, int64_t tokens, int64_t runs) {
    Executable executable([&](const Rewrite& forward) { return forward(graph); }, device,
                          {.mode = mode});
    executable.prepare();
    upload_model(device, executable, checkpoint, checkpoint.tokens);
    std::vector<std::string> kept;
    for (const Value value : graph.inputs()) {
      const Role role = graph.input_info(value).role;
      if (role != Role::cache && role != Role::step_scalars) continue;
      const std::string& name = kept.emplace_back(graph.node(value).name);
      std::vector<char>& bytes = state[name];
      bytes.resize(static_cast<size_t>(byte_size(graph.type(value)).count));
      device.upload(executable.input(name), bytes.data());
    }
    for (int64_t i = 0; i < runs; ++i, first += tokens) {
      std::vector<int32_t> ids;
      for (int64_t b = 0; b < checkpoint.batch; ++b)
        for (int64_t t = first; t < first + tokens; ++t)
          ids.push_back(checkpoint.ids[static_cast<size_t>(b * checkpoint.tokens + t)]);
      device.upload(executable.input("tokens"), ids.data());
      executable.run();
      const std::vector<double> got = testing::elements(device, executable.output("logits"));
      const size_t block = static_cast<size_t>(tokens) * vocabulary;
      for (size_t b = 0; b < static_cast<size_t>(checkpoint.batch); ++b)
        std::copy_n(got.begin() + static_cast<long>(b * block), block,
                    logits.begin() + static_cast<long>((b * static_cast<size_t>(checkpoint.tokens) +
                                                        static_cast<size_t>(first)) *
                                                       vocabulary));
    }
    for (const std::string& name : kept)
      device.download(executable.output(name), state[name].data());
  };
  if (steps.prompt > 0)
    run(gemma3_prefill_graph(checkpoint.config, options(steps.prompt)), 0, steps.prompt, 1);
  const int64_t left = checkpoint.tokens - steps.prompt, whole = left / steps.chunk;
  run(gemma3_decode_graph(checkpoint.config, options(steps.chunk)), steps.prompt, steps.chunk,
      whole);
  if (const int64_t rest = left - whole * steps.chunk; rest > 0)
    run(gemma3_decode_graph(checkpoint.config, options(rest)), checkpoint.tokens - rest, rest, 1);
  return logits;
}

struct Errors {
  double largest = 0, mean_square = 0;
};

Errors errors_of(const Floats& got, const Floats& exact) {
  Errors errors;
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::abs(static_cast<double>(got[i]) - exact[i]);
    errors.largest = larger(errors.largest, error);
    errors.mean_square += error * error / static_cast<double>(got.size());
  }
  errors.mean_square = std::sqrt(errors.mean_square);
  return errors;
}

// Positions whose best token differs although the two best of `exact` are further apart than both
// may move.
int wrong_tokens(const Floats& got, const Floats& exact, int64_t vocabulary, double error) {
  int wrong = 0;
  for (size_t begin = 0; begin < exact.size(); begin += static_cast<size_t>(vocabulary)) {
    Floats row(exact.begin() + static_cast<long>(begin),
               exact.begin() + static_cast<long>(begin) + vocabulary);
    const auto best = std::ranges::max_element(row) - row.begin();
    const auto at = got.begin() + static_cast<long>(begin);
    const bool same = std::max_element(at, at + vocabulary) - at == best;
    std::ranges::nth_element(row, row.begin() + 1, std::greater<>());
    wrong += !same && row[0] - row[1] > 2 * error;
  }
  return wrong;
}

class GemmaCheckpoints : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* named = std::getenv("RIDGELINE_GEMMA_CASES");
    if (named == nullptr) GTEST_SKIP() << "RIDGELINE_GEMMA_CASES names no folder of cases";
    for (const auto& entry : std::filesystem::directory_iterator(named))
      folders_.push_back(entry.path());
    std::ranges::sort(folders_);
  }

  void expect_within_rule(const Checkpoint& checkpoint, const Floats& got, const std::string& how) {
    expect_within_rule(checkpoint, got, checkpoint.fp32, how);
  }
  // The same against other logits than those of transformers.
  void expect_within_rule(const Checkpoint& checkpoint, const Floats& got, const Floats& wanted,
                          const std::string& how) {
    ASSERT_EQ(got.size(), wanted.size()) << how;
    const Errors theirs = errors_of(checkpoint.bf16, checkpoint.fp32);
    const Errors ours = errors_of(got, wanted);
    const int wrong = wrong_tokens(got, wanted, checkpoint.config.vocabulary,
                                   larger(theirs.largest, ours.largest));
    fmt::print(
        "{:<48} largest {:.5f} (transformers bf16 {:.5f}), rms {:.6f} ({:.6f}), "
        "wrong tokens {}\n",
        how, ours.largest, theirs.largest, ours.mean_square, theirs.mean_square, wrong);
    std::fflush(stdout);  // minutes may pass until the next
    EXPECT_LE(ours.largest, 2 * theirs.largest) << how;
    EXPECT_LE(ours.mean_square, 2 * theirs.mean_square) << how;
    EXPECT_EQ(wrong, 0) << how;
  }

  std::vector<std::filesystem::path> folders_;
};

TEST_F(GemmaCheckpoints, LogitsAreThoseOfTransformers) {
  CpuDevice device({.threads = 2});
  for (const auto& folder : folders_) {
    const Checkpoint checkpoint(folder);
    for (const DType dtype : {DType::bf16, DType::f32})
      for (const AttentionForm form : {AttentionForm::plain, AttentionForm::fused})
        for (const Mode mode : {Mode::vanilla, Mode::compiled}) {
          const std::string how =
              fmt::format("{} {} {} {}", folder.filename().string(), info(dtype).name,
                          form == AttentionForm::plain ? "plain" : "fused", info(mode).name);
          expect_within_rule(checkpoint, whole_sequence(device, checkpoint, form, mode, dtype),
                             how);
        }
  }
}

TEST_F(GemmaCheckpoints, LogitsBehindACacheAreThoseOfTransformers) {
  CpuDevice device({.threads = 2});
  for (const auto& folder : folders_) {
    const Checkpoint checkpoint(folder);
    for (const AttentionForm form : {AttentionForm::plain, AttentionForm::fused})
      for (const Mode mode : {Mode::vanilla, Mode::compiled})
        for (const Steps& steps : {Steps{.chunk = 64}, Steps{.prompt = 100, .chunk = 39},
                                   Steps{.prompt = checkpoint.tokens - 8}}) {
          const std::string how =
              fmt::format("{} {} {}, prompt {}, chunks of {}", folder.filename().string(),
                          form == AttentionForm::plain ? "plain" : "fused", info(mode).name,
                          steps.prompt, steps.chunk);
          expect_within_rule(
              checkpoint, behind_a_cache(device, checkpoint, form, mode, DType::bf16, steps), how);
        }
  }
}

// Each way of taking a text in is held against transformers, and against our own other way.
TEST_F(GemmaCheckpoints, TeacherForcedInBf16WithACacheIsAsWithoutAndChunksAreAsAtOnce) {
  CpuDevice device({.threads = 2});
  for (const auto& folder : folders_) {
    const Checkpoint checkpoint(folder);
    const std::string name = folder.filename().string();
    const auto cached = [&](const Steps& steps) {
      return behind_a_cache(device, checkpoint, AttentionForm::fused, Mode::compiled, DType::bf16,
                            steps);
    };
    const Floats without =
        whole_sequence(device, checkpoint, AttentionForm::fused, Mode::compiled, DType::bf16);
    const Floats single = cached({}), chunks = cached({.chunk = 39});
    const Floats at_once = cached({.prompt = checkpoint.tokens - 1});
    expect_within_rule(checkpoint, single, name + " token by token");
    expect_within_rule(checkpoint, chunks, name + " chunks of 39");
    expect_within_rule(checkpoint, at_once, name + " prompt at once, then a token");
    expect_within_rule(checkpoint, single, without, name + " token by token / without a cache");
    expect_within_rule(checkpoint, chunks, at_once, name + " chunks of 39 / prompt at once");
  }
}

// Every position by a run of its own.
TEST_F(GemmaCheckpoints, SingleTokensInFp32AreThoseOfTransformers) {
  CpuDevice device({.threads = 2});
  for (const auto& folder : folders_) {
    const Checkpoint checkpoint(folder);
    expect_within_rule(
        checkpoint,
        behind_a_cache(device, checkpoint, AttentionForm::fused, Mode::compiled, DType::f32, {}),
        folder.filename().string() + " fp32 fused compiled, token by token");
  }
}

}  // namespace
}  // namespace ridgeline
