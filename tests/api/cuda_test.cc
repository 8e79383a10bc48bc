// The C interface on a GPU: what it asks of the driver, by one that stands in for it
// (tests/jit/fake_gpu.cc; NVRTC is real), and values on a real one.
#include <gtest/gtest.h>
#include <ridgeline/ridgeline.h>

#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "api/described.h"
#include "api/stand_in_calls.h"
#include "support/gpu.h"

namespace ridgeline::cuda_test {
namespace {

using namespace api_testing;

ContextPointer gpu_context() {
  rl_context_params params = {};
  params.size = sizeof params;
  params.device = {RL_CUDA, 0};
  params.cache_dir = "off";
  rl_context* context = nullptr;
  EXPECT_EQ(rl_context_create(&params, &context), RL_OK) << rl_last_error();
  return ContextPointer(context);
}

TEST(Child, DISABLED_CallsAreLookedUpAndLaunched) {
  const ContextPointer context = gpu_context();
  GpuProblem one, other;
  EXPECT_OK(rl_attention_forward(context.get(), &one.forward));
  const Counts first = counts();
  EXPECT_EQ(first.launches, 1);
  EXPECT_OK(rl_attention_forward(context.get(), &one.forward));
  EXPECT_OK(rl_attention_forward(context.get(), &other.forward));
  const Counts then = counts();
  EXPECT_EQ(then.launches, 3);
  EXPECT_EQ(then.loads, first.loads);
  EXPECT_EQ(then.allocations, first.allocations);

  EXPECT_OK(rl_attention_backward(context.get(), &one.backward));
  const Counts backward = counts();
  EXPECT_OK(rl_attention_backward(context.get(), &other.backward));
  EXPECT_EQ(counts().loads, backward.loads);
  EXPECT_EQ(counts().allocations, backward.allocations);
  EXPECT_EQ(counts().launches - backward.launches, backward.launches - then.launches);

  void* current = &current;
  stand_in<int(void**)>("cuCtxGetCurrent")(&current);
  EXPECT_EQ(current, nullptr) << "the thread's context is as it was";

  // The kernels write log-sum-exps one after the other.
  const int64_t strides[3] = {4 * kLength, 2 * kLength, 2};
  one.tensors[4].strides = strides;
  EXPECT_EQ(rl_attention_forward(context.get(), &one.forward), RL_ERROR_UNSUPPORTED);
}

TEST(Child, DISABLED_StreamsMayBeCaptured) {
  const ContextPointer context = gpu_context();
  int streams[2];
  const auto capture = stand_in<void(void*)>("fake_gpu_capture");
  GpuProblem problem;
  problem.forward.uses_stream = problem.backward.uses_stream = 1;
  problem.forward.stream = problem.backward.stream = &streams[0];
  capture(&streams[0]);
  EXPECT_EQ(rl_attention_forward(context.get(), &problem.forward), RL_ERROR_NOT_READY);
  EXPECT_TRUE(contains(rl_last_error(), "kernels of this call are not loaded")) << rl_last_error();
  EXPECT_TRUE(contains(rl_last_error(), "_warm_up")) << rl_last_error();
  EXPECT_EQ(counts().launches, 0);

  // Memory is not needed to warm up.
  capture(nullptr);
  std::array<rl_tensor, 9> tensors = problem.tensors;
  for (rl_tensor& tensor : problem.tensors) tensor.data = nullptr;
  EXPECT_OK(rl_attention_forward_warm_up(context.get(), &problem.forward));
  EXPECT_EQ(rl_attention_forward(context.get(), &problem.forward), RL_ERROR_INVALID_ARGUMENT);
  problem.tensors = tensors;
  capture(&streams[0]);
  EXPECT_OK(rl_attention_forward(context.get(), &problem.forward));
  EXPECT_EQ(stand_in<void*()>("fake_gpu_last_stream")(), &streams[0]);

  // A backward also takes a workspace, one for each stream.
  EXPECT_EQ(rl_attention_backward(context.get(), &problem.backward), RL_ERROR_NOT_READY);
  capture(nullptr);
  problem.backward.stream = &streams[1];
  EXPECT_OK(rl_attention_backward_warm_up(context.get(), &problem.backward));
  capture(&streams[0]);
  EXPECT_OK(rl_attention_backward(context.get(), &problem.backward));
  problem.backward.stream = &streams[0];
  EXPECT_EQ(rl_attention_backward(context.get(), &problem.backward), RL_ERROR_NOT_READY);
  EXPECT_TRUE(contains(rl_last_error(), "no workspace")) << rl_last_error();
  size_t bytes = 0;
  EXPECT_OK(rl_attention_backward_workspace(context.get(), &problem.backward, &bytes));
  std::vector<char> memory(bytes + 256);
  problem.backward.workspace =
      reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(memory.data()) + 255) / 256 * 256);
  problem.backward.workspace_bytes = bytes;
  EXPECT_OK(rl_attention_backward(context.get(), &problem.backward));
  EXPECT_EQ(stand_in<void*()>("fake_gpu_last_stream")(), &streams[0]);
}

// A graph of the caller goes on using the workspace of its captured calls.
TEST(Child, DISABLED_CapturedWorkspacesAreKept) {
  int stream = 0;
  const auto capture = stand_in<void(void*)>("fake_gpu_capture");
  // Frees of a workspace that is outgrown by a problem twice as long.
  const auto frees = [&](bool is_captured) {
    const ContextPointer context = gpu_context();
    GpuProblem problem;
    problem.backward.uses_stream = 1;
    problem.backward.stream = &stream;
    EXPECT_OK(rl_attention_backward(context.get(), &problem.backward));
    capture(is_captured ? &stream : nullptr);
    EXPECT_OK(rl_attention_backward(context.get(), &problem.backward));
    capture(nullptr);
    problem.shape[2] *= 2;  // nothing runs here, so the tensors may be too small
    const Counts before = counts();
    EXPECT_OK(rl_attention_backward(context.get(), &problem.backward));
    EXPECT_GT(counts().allocations, before.allocations);
    return counts().frees - before.frees;
  };
  EXPECT_EQ(frees(false), 1);
  EXPECT_EQ(frees(true), 0);
}

// cudaStreamPerThread is one handle for as many streams as there are threads.
TEST(Child, DISABLED_ThreadsHaveWorkspacesOfTheirOwn) {
  const ContextPointer context = gpu_context();
  // Workspaces that a call in this thread and then one in another take.
  const auto taken = [&](uintptr_t stream) {
    GpuProblem problem;
    problem.backward.uses_stream = 1;
    problem.backward.stream = reinterpret_cast<void*>(stream);
    const auto backward = [&] {
      EXPECT_OK(rl_attention_backward(context.get(), &problem.backward));
    };
    EXPECT_OK(rl_attention_backward_warm_up(context.get(), &problem.backward));
    const Counts before = counts();
    backward();
    std::thread(backward).join();
    return counts().allocations - before.allocations;
  };
  EXPECT_EQ(taken(0x1000), 0);
  EXPECT_EQ(taken(2), 1);
}

// What a thread has queued on its own stream may run on after its end, and the next thread may have
// the same std::thread::id.
TEST(Child, DISABLED_WorkspacesOfEndedThreadsAreNotTakenOver) {
  constexpr int kThreads = 5;
  const ContextPointer context = gpu_context();
  GpuProblem problem;
  problem.backward.uses_stream = 1;
  problem.backward.stream = reinterpret_cast<void*>(uintptr_t{2});
  const auto backward = [&] { EXPECT_OK(rl_attention_backward(context.get(), &problem.backward)); };
  std::thread(backward).join();
  const Counts before = counts();
  for (int i = 0; i < kThreads; ++i) std::thread(backward).join();
  EXPECT_EQ(counts().allocations - before.allocations, kThreads);
  EXPECT_EQ(counts().frees - before.frees, kThreads) << "they are freed all the same";
  EXPECT_EQ(counts().context_waits - before.context_waits, kThreads) << "when nothing uses them";
}

// Destroying a context waits for the streams of all threads.
TEST(Child, DISABLED_AContextOnPerThreadStreamsWaitsForAll) {
  const auto waits = [&](uintptr_t stream) {
    rl_context_params params = {};
    params.size = sizeof params;
    params.device = {RL_CUDA, 0};
    params.uses_stream = 1;
    params.stream = reinterpret_cast<void*>(stream);
    params.cache_dir = "off";
    rl_context* context = nullptr;
    EXPECT_OK(rl_context_create(&params, &context));
    const Counts before = counts();
    rl_context_destroy(context);
    return counts().context_waits - before.context_waits;
  };
  EXPECT_EQ(waits(0x1000), 0);
  EXPECT_EQ(waits(2), 1);
}

// Causal attention of so many heads that kernels which draw tiles from a counter would draw them on
// the stand-in's four multiprocessors.
struct ManyHeads : GpuProblem {
  ManyHeads() {
    shape[1] = 20;  // nothing runs here, so the tensors may be nowhere
    shape[3] = 256;
    for (size_t i = 0; i < tensors.size(); ++i)
      tensors[i].data = reinterpret_cast<void*>(uintptr_t{i + 1} << 32);
    forward.causal = RL_CAUSAL_TOP_LEFT;
    forward.uses_stream = 1;
  }
};

TEST(Child, DISABLED_MaskedForwardsAreCapturedOnAnyStream) {
  const ContextPointer context = gpu_context();
  ManyHeads problem;
  size_t bytes = 1;
  EXPECT_OK(rl_attention_forward_workspace(context.get(), &problem.forward, &bytes));
  EXPECT_EQ(bytes, 0u) << "no kernel for this GPU draws tiles";
  int streams[2];
  problem.forward.stream = &streams[0];
  EXPECT_OK(rl_attention_forward(context.get(), &problem.forward));
  problem.forward.stream = &streams[1];
  stand_in<void(void*)>("fake_gpu_capture")(&streams[1]);
  EXPECT_OK(rl_attention_forward(context.get(), &problem.forward));
}

TEST(Child, DISABLED_DrawnTilesTakeAWorkspaceOfTheirStream) {
  const ContextPointer context = gpu_context();
  ManyHeads problem;
  size_t bytes = 0;
  EXPECT_OK(rl_attention_forward_workspace(context.get(), &problem.forward, &bytes));
  EXPECT_GT(bytes, 0u);
  int streams[2];
  problem.forward.stream = &streams[0];
  EXPECT_OK(rl_attention_forward(context.get(), &problem.forward));
  EXPECT_EQ(counts().launches, 2) << "one clears the counter";
  problem.forward.stream = &streams[1];
  const auto capture = stand_in<void(void*)>("fake_gpu_capture");
  capture(&streams[1]);
  EXPECT_EQ(rl_attention_forward(context.get(), &problem.forward), RL_ERROR_NOT_READY);
  capture(nullptr);
  EXPECT_OK(rl_attention_forward_warm_up(context.get(), &problem.forward));
  capture(&streams[1]);
  EXPECT_OK(rl_attention_forward(context.get(), &problem.forward));

  // Few heads are not drawn.
  problem.shape[1] = 4;
  EXPECT_OK(rl_attention_forward_workspace(context.get(), &problem.forward, &bytes));
  EXPECT_EQ(bytes, 0u);
}

TEST(Child, DISABLED_PreparedCallsAreLaunched) {
  const ContextPointer context = gpu_context();
  GpuProblem problem;
  int streams[2];
  problem.forward.uses_stream = 1;
  problem.forward.stream = &streams[0];
  rl_attention_call* call = nullptr;
  EXPECT_OK(rl_attention_forward_prepare(context.get(), &problem.forward, &call));
  const Counts first = counts();
  EXPECT_EQ(first.launches, 0);
  EXPECT_GT(first.loads, 0);
  rl_attention_run run = {sizeof run, call, &streams[1], nullptr, 0, {}};
  for (size_t i = 0; i < 5; ++i) run.data[i] = problem.tensors[i].data;
  const auto capture = stand_in<void(void*)>("fake_gpu_capture");
  capture(&streams[1]);
  EXPECT_OK(rl_attention_call_run(&run));
  EXPECT_EQ(stand_in<void*()>("fake_gpu_last_stream")(), &streams[1]);
  EXPECT_EQ(counts().launches, 1);
  EXPECT_EQ(counts().loads, first.loads);

  // Addresses of other remainders may need another kernel, which no capture can wait for.
  run.data[0] = static_cast<char*>(run.data[0]) + 2;
  EXPECT_EQ(rl_attention_call_run(&run), RL_ERROR_NOT_READY);
  capture(nullptr);
  EXPECT_OK(rl_attention_call_run(&run));
  EXPECT_EQ(counts().launches, 2);
  rl_attention_call_destroy(call);
}

// The kernels of a function of positions and operands compile, and sums of tiles are added up.
TEST(Child, DISABLED_ScoreFunctionsRun) {
  const ContextPointer context = gpu_context();
  GpuProblem problem;
  const rl_score_node nodes[] = {{RL_SCORE, {0}, 0},
                                 {RL_SCORE_OPERAND, {0}, 0},
                                 {RL_SCORE_KEY, {0}, 0},
                                 {RL_SCORE_QUERY, {0}, 0},
                                 {RL_SCORE_SUBTRACT, {2, 3}, 0},
                                 {RL_SCORE_MULTIPLY, {1, 4}, 0},
                                 {RL_SCORE_ADD, {0, 5}, 0},
                                 {RL_SCORE_LESS_EQUAL, {2, 3}, 0},
                                 {RL_SCORE_BATCH, {0}, 0},
                                 {RL_SCORE_HEAD, {0}, 0},
                                 {RL_SCORE_EQUAL, {8, 9}, 0},
                                 {RL_SCORE_OR, {7, 10}, 0},
                                 {RL_SCORE_CONSTANT, {0}, -1e30},
                                 {RL_SCORE_WHERE, {11, 6, 12}, 0}};
  rl_score_function* function = nullptr;
  EXPECT_OK(rl_score_function_create(nodes, std::size(nodes), &function));
  uint16_t slopes[2] = {}, d_slopes[2] = {};
  const int64_t shape[4] = {1, 2, 1, 1};
  const rl_tensor operand = {slopes, {RL_CUDA, 0}, 4, {RL_BFLOAT, 16, 1}, shape, nullptr, 0};
  rl_tensor gradient = operand;
  gradient.data = d_slopes;
  const rl_tensor* operands[] = {&operand};
  const rl_tensor* gradients[] = {&gradient};
  problem.forward.score = problem.backward.score = function;
  problem.forward.operands = problem.backward.operands = operands;
  problem.forward.operand_count = problem.backward.operand_count = 1;
  problem.backward.d_operands = gradients;
  EXPECT_OK(rl_attention_forward(context.get(), &problem.forward));
  EXPECT_EQ(counts().launches, 1);
  EXPECT_OK(rl_attention_backward(context.get(), &problem.backward));
  EXPECT_EQ(counts().launches, 1 + 6) << "begin, tiles, end, operand, sum, cast";
  rl_score_function_destroy(function);
}

// A table along diagonals: its gradient needs no more than the sums.
TEST(Child, DISABLED_SumsAlongDiagonalsRun) {
  const ContextPointer context = gpu_context();
  GpuProblem problem;
  const rl_score_node nodes[] = {
      {RL_SCORE, {0}, 0}, {RL_SCORE_OPERAND, {0}, 0}, {RL_SCORE_ADD, {0, 1}, 0}};
  rl_score_function* function = nullptr;
  EXPECT_OK(rl_score_function_create(nodes, std::size(nodes), &function));
  const int64_t queries = problem.backward.q->shape[2], keys = problem.backward.k->shape[2];
  std::vector<float> table(static_cast<size_t>(queries + keys)), d_table(table.size());
  const int64_t shape[4] = {1, 1, queries, keys}, strides[4] = {0, 0, -1, 1};
  const int64_t sums[4] = {1, 1, 1, queries + keys - 1};
  const rl_tensor operand = {
      table.data() + queries - 1, {RL_CUDA, 0}, 4, {RL_FLOAT, 32, 1}, shape, strides, 0};
  const rl_tensor gradient = {d_table.data(), {RL_CUDA, 0}, 4, {RL_FLOAT, 32, 1}, sums, nullptr, 0};
  const rl_tensor *operands[] = {&operand}, *gradients[] = {&gradient};
  problem.backward.score = function;
  problem.backward.operands = operands;
  problem.backward.operand_count = 1;
  problem.backward.d_operands = gradients;
  size_t bytes = 0, bytes_without = 0;
  EXPECT_OK(rl_attention_backward_workspace(context.get(), &problem.backward, &bytes));
  EXPECT_OK(rl_attention_backward(context.get(), &problem.backward));
  EXPECT_EQ(counts().launches, 4) << "begin, tiles, end, operand";
  problem.backward.d_operands = nullptr;
  EXPECT_OK(rl_attention_backward_workspace(context.get(), &problem.backward, &bytes_without));
  EXPECT_EQ(bytes, bytes_without);
  rl_score_function_destroy(function);
}

TEST(LibraryOnAGpu, PlansACallOnceAndThenLaunchesIt) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("CallsAreLookedUpAndLaunched");
}

TEST(LibraryOnAGpu, CanBeCapturedOnceItIsWarm) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("StreamsMayBeCaptured");
}

TEST(LibraryOnAGpu, KeepsTheWorkspacesOfCapturedCalls) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("CapturedWorkspacesAreKept");
}

TEST(LibraryOnAGpu, KeepsWorkspacesOfPerThreadStreamsApart) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("ThreadsHaveWorkspacesOfTheirOwn");
}

TEST(LibraryOnAGpu, KeepsWorkspacesFromTheThreadsAfterAnEndedOne) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("WorkspacesOfEndedThreadsAreNotTakenOver");
}

TEST(LibraryOnAGpu, WaitsForTheStreamsOfAllThreadsInTheEnd) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("AContextOnPerThreadStreamsWaitsForAll");
}

TEST(LibraryOnAGpu, NeedsNoWorkspaceForAMaskUnlessTilesAreDrawn) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("MaskedForwardsAreCapturedOnAnyStream");
  expect_child_passes("DrawnTilesTakeAWorkspaceOfTheirStream", /*on_hopper=*/true);
}

TEST(LibraryOnAGpu, LaunchesPreparedCalls) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("PreparedCallsAreLaunched");
}

TEST(LibraryOnAGpu, CompilesScoreFunctions) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("ScoreFunctionsRun");
}

TEST(LibraryOnAGpu, AddsUpAlongDiagonalsWithoutAMatrix) {
  RIDGELINE_NEEDS_NVRTC();
  expect_child_passes("SumsAlongDiagonalsRun");
}

// Tensors of a problem, moved to a GPU and back.
class OnTheGpu {
 public:
  explicit OnTheGpu(api_testing::Problem& problem) {
    using api_testing::Described;
    for (Described* tensor : {&problem.q, &problem.k, &problem.v, &problem.d_out, &problem.out,
                              &problem.log_sum_exp, &problem.d_q, &problem.d_k, &problem.d_v}) {
      rl_tensor& edited = tensor->edit();
      // Twice the elements: what strides reach.
      const auto bytes =
          static_cast<size_t>(2 * element_count(tensor->shape()) * edited.dtype.bits / 8);
      cuda::DevicePointer address = 0;
      cuda::check(cuda::driver().cuMemAlloc_v2(&address, bytes), "taking memory");
      cuda::check(cuda::driver().cuMemcpyHtoD_v2(address, edited.data, bytes), "copying");
      copies_.push_back({edited.data, address, bytes});
      edited.data = reinterpret_cast<void*>(address);
      edited.device = {RL_CUDA, 0};
    }
  }
  ~OnTheGpu() {
    for (const Copy& copy : copies_) cuda::driver().cuMemFree_v2(copy.device);
  }
  void fetch() const {
    for (const Copy& copy : copies_)
      cuda::check(cuda::driver().cuMemcpyDtoH_v2(copy.host, copy.device, copy.bytes), "copying");
  }

 private:
  struct Copy {
    void* host;
    cuda::DevicePointer device;
    size_t bytes;
  };
  std::vector<Copy> copies_;
};

TEST(LibraryOnAGpu, MatchesTheOracle) {
  RIDGELINE_NEEDS_GPU();
  CudaDevice keeps_the_context;
  const ContextPointer context = gpu_context();
  uint32_t seed = 1;
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const int64_t width : {64, 128})
      for (const bool causal : {false, true})
        for (const bool deterministic : {false, true}) {
          const flash_testing::Config config = {.batch = 2,
                                                .heads = 4,
                                                .key_heads = 2,
                                                .queries = 130,
                                                .keys = 200,
                                                .head_dim = width,
                                                .mask = {.causal = causal},
                                                .dtype = dtype};
          SCOPED_TRACE(describe(config));
          const flash_testing::Inputs in = random_inputs(config, seed++);
          api_testing::Problem problem(config);
          problem.assign(in);
          const OnTheGpu gpu(problem);
          problem.backward.deterministic = deterministic ? 1 : 0;
          EXPECT_OK(rl_attention_forward(context.get(), &problem.forward));
          EXPECT_OK(rl_attention_backward(context.get(), &problem.backward));
          EXPECT_OK(rl_context_synchronize(context.get()));
          gpu.fetch();
          expect_right(config, in, oracle(config, in), naive(config, in), problem.run);
        }
}

}  // namespace
}  // namespace ridgeline::cuda_test
