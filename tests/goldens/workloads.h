// The workloads whose launches are held: attention, models, single kernels, on a CPU and on GPUs.
#pragma once

#include <functional>
#include <limits>
#include <optional>

#include "autodiff/gradient.h"
#include "goldens/recording_device.h"
#include "kernels/cuda/lab/gemm_plan.h"
#include "models/attention.h"
#include "passes/decompose.h"
#include "passes/flash.h"
#include "passes/simplify.h"
#include "runtime/compiled_executor.h"
#include "runtime/eager_executor.h"
#include "runtime/epilogue_choice.h"
#include "runtime/scratch.h"
#include "studies/attention/workload.h"
#include "studies/device_facts.h"
#include "studies/kernel/calls.h"
#include "support/models.h"

namespace ridgeline::testing {

struct GoldenWorkload {
  std::string name;  // one line: what, then where
  Target target = Target::cpu;
  std::function<void(RecordingDevice&)> run;
  bool epilogues_win = false;
};

inline std::string_view name_of(Target target) {
  return target == Target::cpu ? "cpu" : target == Target::ampere ? "sm_80" : "sm_90a";
}

inline void run_graph(const Graph& graph, bool compiled, RecordingDevice& device) {
  if (!compiled) {
    const Schedule schedule = eager_schedule(graph);
    return EagerExecutor(graph, schedule, device).run_all();
  }
  const Graph lowered = simplify(decompose(graph));
  const Plan plan = make_plan(lowered, {.scratch = scratch_of(device),
                                        .epilogue = epilogue_chooser(device),
                                        .overlap = device.can_record(),
                                        .early_updates = true});
  CompiledExecutor(lowered, plan, device).run_all();
}

inline GoldenWorkload attention_golden(Target target, std::string_view implementation,
                                       AttentionConfig config) {
  const AttentionWorkload workload{config, std::string(implementation)};
  return {fmt::format("attention {}, {}", label(workload), name_of(target)), target,
          [workload](RecordingDevice& device) {
            Executable executable(attention_trace(workload), device, attention_options(workload));
            executable.prepare();
            executable.run_stage(0);
            executable.run_stage(1);
          }};
}

// softmax(f(q k^T)) v with the gradients of all that f reads.
inline GoldenWorkload score_golden(Target target, const std::string& name, bool compiled,
                                   const std::function<Tensor(Graph&, const Tensor&)>& f,
                                   int64_t length = 192) {
  return {fmt::format("attention with {}, {}, {}", name, compiled ? "compiled" : "eager",
                      name_of(target)),
          target, [compiled, f, length](RecordingDevice& device) {
            Graph graph;
            const TensorType type{DType::bf16, {2, 4, length, 64}};
            const Tensor q = input(graph, "q", type), k = input(graph, "k", type),
                         v = input(graph, "v", type);
            input(graph, "d_output", type);
            const Tensor scores = cast(matmul(q, transpose(k)), DType::f32) * 0.125;
            const Tensor weights = cast(softmax(f(graph, scores)), DType::bf16);
            graph.mark_output("output", matmul(weights, v).value());
            if (compiled) graph = flash(graph);
            graph.begin_stage("backward");
            Cotangent cotangent{Tensor(graph, graph.outputs()[0].value), {}};
            std::vector<Tensor> sources;
            for (Value value : graph.inputs()) {
              const Tensor each(graph, value);
              if (graph.name(value) == "d_output")
                cotangent.gradient = each;
              else
                sources.push_back(each);
            }
            const std::vector<Tensor> gradients = gradient({&cotangent, 1}, sources);
            for (size_t i = 0; i < sources.size(); ++i)
              graph.mark_output("d_" + graph.name(sources[i].value()), gradients[i].value());
            run_graph(graph, compiled, device);
          }};
}

struct ModelGolden {
  Mode mode = Mode::vanilla;
  ModelPrecision precision = ModelPrecision::fp32;
  Scenario scenario = Scenario::full_step;
  double max_norm = 0;
  bool epilogues_win = false;
  std::optional<Bytes> budget = {};
  int64_t layers = 2;
};

inline GoldenWorkload model_golden(Target target, const ModelGolden& of) {
  const TransformerConfig config{.name = "golden",
                                 .d_model = 256,
                                 .d_ff = 704,
                                 .layers = of.layers,
                                 .heads = 4,
                                 .vocabulary = 1000,
                                 .batch_size = 2,
                                 .context_length = 128};
  return {fmt::format("model {} {} {}{}{}{}{}, {}", info(of.mode).name, info(of.precision).name,
                      info(of.scenario).name, of.max_norm > 0 ? " clipped" : "",
                      of.epilogues_win ? " with epilogues" : "",
                      of.budget ? " in " + to_string(*of.budget) : "",
                      of.layers != 2 ? fmt::format(" {} layers", of.layers) : "", name_of(target)),
          target,
          [of, config](RecordingDevice& device) {
            Executable executable = model_executable({config, of.precision, of.mode}, of.scenario,
                                                     device, {.max_norm = of.max_norm}, of.budget);
            executable.prepare();
            executable.run();
          },
          of.epilogues_win};
}

// Every op that is no attention, in one graph.
inline Graph all_ops(DType dtype) {
  Graph graph;
  const Tensor x = input(graph, "x", {dtype, {6, 40, 96}}), y = input(graph, "y", {dtype, {40, 1}});
  const Tensor table = input(graph, "table", {dtype, {50, 96}});
  const Tensor indices = input(graph, "indices", {DType::i32, {24}});
  const auto mark = [&](const char* name, const Tensor& result) {
    graph.mark_output(name, result.value());
  };
  mark("negate", -x);
  mark("exp", exp(x));
  mark("log", log(x));
  mark("sqrt", sqrt(x));
  mark("rsqrt", rsqrt(x));
  mark("sin", sin(x));
  mark("cos", cos(x));
  mark("tanh", tanh(x));
  mark("sigmoid", sigmoid(x));
  mark("silu", silu(x));
  mark("silu_gradient", silu_gradient(x, y));
  mark("gelu_tanh", gelu_tanh(x));
  mark("cast", cast(x, dtype == DType::f32 ? DType::bf16 : DType::f32));
  mark("add", x + y);
  mark("subtract", x - y);
  mark("multiply", x * y);
  mark("divide", x / (y + 2));
  mark("maximum", maximum(x, y));
  mark("where", where(less(x, y), x, y));
  mark("where_equal", where(less_equal(x, y), y, where(equal(x, y), x, scalar(x, 3))));
  mark("softmax", softmax(x));
  mark("softmax_gradient", softmax_gradient(softmax(x), x));
  mark("log_softmax", log_softmax(x));
  mark("log_softmax_gradient", log_softmax_gradient(log_softmax(x), x));
  mark("sum", sum(x, {2}));
  mark("mean", mean(x, {0, 1}));
  mark("max", max(x, {1}));
  mark("matmul", matmul(x, transpose(table)));
  mark("gather", gather(table, indices));
  mark("scatter_add", scatter_add(indices, gather(table, indices), 50));
  mark("pick", pick(slice(table, 0, 0, 24), indices));
  mark("place", place(indices, pick(slice(table, 0, 0, 24), indices), 96));
  const Tensor flat = reshape(table, {50 * 96});
  mark("sum_of_squares", sum_of_squares({&flat, 1}));
  mark("reshape", reshape(permute(x, {1, 0, 2}), {240, 96}));
  const std::vector<Tensor> parts = {x, slice(x, 0, 1, 3)};
  mark("concat", concat(parts, 0));
  mark("pad", pad(x, 1, 3, 50));
  mark("iota", cast(iota(graph, 100), DType::f32));
  return graph;
}

inline GoldenWorkload ops_golden(Target target, DType dtype, bool compiled) {
  return {fmt::format("all ops {}, {}, {}", info(dtype).name, compiled ? "compiled" : "eager",
                      name_of(target)),
          target, [dtype, compiled](RecordingDevice& device) {
            run_graph(all_ops(dtype), compiled, device);
          }};
}

// Products whose results go on through a bias, an activation and a sum.
inline GoldenWorkload products_golden(DType dtype, bool epilogues_win) {
  return {fmt::format("products {}{}, sm_90a", info(dtype).name,
                      epilogues_win ? " with epilogues" : ""),
          Target::hopper,
          [dtype](RecordingDevice& device) {
            Graph graph;
            const auto entered = [&](const char* name, const Shape& shape) {
              return input(graph, name, {dtype, shape});
            };
            const Tensor x = entered("x", {192, 64});
            const Tensor hidden = matmul(x, entered("up", {64, 256})) + entered("bias", {1, 256});
            const Tensor gate = matmul(x, entered("gate", {64, 256})) * 0.5;
            const Tensor active = maximum(hidden, scalar(hidden, 0)) * gate;
            graph.mark_output("y", (matmul(active, entered("down", {256, 64})) + x).value());
            run_graph(graph, true, device);
          },
          epilogues_win};
}

inline GoldenWorkload kernel_golden(Target target, DType dtype, int64_t head_dim, bool causal) {
  return {fmt::format("kernel flash head_dim {} {}{}, {}", head_dim, info(dtype).name,
                      causal ? " causal" : "", name_of(target)),
          target, [dtype, head_dim, causal](RecordingDevice& device) {
            const AttentionConfig config{.batch_size = 2,
                                         .heads = 4,
                                         .seq_len = 256,
                                         .head_dim = head_dim,
                                         .causal = causal,
                                         .dtype = dtype};
            const auto calls = fused_calls(config, device, {.copies = 1, .backward = true});
            calls->forward(0);
            calls->backward(0);
          }};
}

inline GoldenWorkload gemm_golden(CudaGemm which) {
  return {
      fmt::format("kernel gemm {}, sm_90a", which == CudaGemm::naive ? "naive" : "tiled"),
      Target::hopper, [which](RecordingDevice& device) {
        for (int64_t n : {1, 40, 512}) {
          const TensorView a{reinterpret_cast<void*>(1 << 20), DType::bf16, {300, 200}, {200, 1}};
          const TensorView b{reinterpret_cast<void*>(2 << 20), DType::bf16, {200, n}, {n, 1}};
          const TensorView out{reinterpret_cast<void*>(3 << 20), DType::bf16, {300, n}, {n, 1}};
          device.add(plan_gemm(which, a, b, out, facts_of(Target::hopper)));
        }
      }};
}

inline void add_attention_goldens(std::vector<GoldenWorkload>& all) {
  using enum Target;
  const auto sizes = [](DType dtype, bool causal, int64_t head_dim = 64) {
    return AttentionConfig{.batch_size = 2,
                           .heads = 2,
                           .seq_len = 320,
                           .head_dim = head_dim,
                           .causal = causal,
                           .dtype = dtype};
  };
  for (Target target : {cpu, hopper})
    for (const char* implementation : {"naive", "compiled", "flash"}) {
      all.push_back(attention_golden(target, implementation, sizes(DType::f32, false)));
      all.push_back(attention_golden(target, implementation, sizes(DType::bf16, true)));
    }
  all.push_back(attention_golden(hopper, "naive", sizes(DType::f16, true, 40)));
  all.push_back(attention_golden(hopper, "compiled", sizes(DType::tf32, true)));
  all.push_back(attention_golden(hopper, "flash", sizes(DType::tf32, false, 128)));
  AttentionConfig two_pass = sizes(DType::f16, true, 128);
  two_pass.backward = BackwardAlgorithm::two_pass;
  for (Target target : {hopper, ampere}) {
    all.push_back(attention_golden(target, "flash", two_pass));
    all.push_back(attention_golden(target, "flash", sizes(DType::bf16, false, 256)));
  }
  all.push_back(attention_golden(ampere, "flash", sizes(DType::f32, true)));
  AttentionConfig drawn = sizes(DType::bf16, true, 128);
  drawn.heads = 150;  // so many long tiles that blocks draw them
  drawn.seq_len = 512;
  all.push_back(attention_golden(hopper, "flash", drawn));
  all.push_back(attention_golden(ampere, "compiled", sizes(DType::bf16, true)));

  const auto cap = [](Graph&, const Tensor& s) { return tanh(s / 30) * 30; };
  const auto bias = [](Graph& graph, const Tensor& s) {
    return s + input(graph, "bias", {DType::f32, {1, 4, 192, 192}});
  };
  const auto gate = [](Graph& graph, const Tensor& s) {
    const Tensor gates = input(graph, "gates", {DType::f32, {2, 4, 1, 192}});
    return s * sigmoid(gates) + silu(s) + sin(s) - exp(gates) * 0.1;
  };
  for (Target target : {cpu, hopper}) {
    all.push_back(score_golden(target, "capped scores", true, cap));
    all.push_back(score_golden(target, "a learned bias", true, bias));
    all.push_back(score_golden(target, "gated scores", true, gate));
  }
  const auto documents = [](Graph& graph, const Tensor& s) {
    const Tensor of_queries = input(graph, "of_queries", {DType::f32, {2, 1, 320, 1}});
    const Tensor of_keys = input(graph, "of_keys", {DType::f32, {2, 1, 1, 320}});
    return where(equal(of_queries, of_keys), s,
                 scalar(s, -std::numeric_limits<double>::infinity()));
  };
  for (Target target : {ampere, hopper})
    all.push_back(score_golden(target, "documents", true, documents, 320));
  all.push_back(score_golden(ampere, "gated scores", true, gate));
  all.push_back(score_golden(hopper, "a learned bias", false, bias));
}

inline void add_model_goldens(std::vector<GoldenWorkload>& all) {
  using enum Target;
  using enum Mode;
  using enum ModelPrecision;
  for (Target target : {cpu, hopper})
    for (Mode mode : {vanilla, compiled})
      for (ModelPrecision precision : {fp32, mixed}) {
        for (Scenario scenario : {Scenario::forward, Scenario::forward_backward})
          all.push_back(model_golden(target, {mode, precision, scenario}));
        all.push_back(model_golden(target, {.mode = mode, .precision = precision, .max_norm = 1}));
      }
  for (Target target : {cpu, hopper})
    for (Mode mode : {vanilla, compiled})
      all.push_back(model_golden(target, {.mode = mode, .precision = mixed_fp16}));
  all.push_back(model_golden(hopper, {.mode = vanilla, .precision = tf32}));
  all.push_back(model_golden(hopper, {.mode = compiled, .precision = tf32}));
  all.push_back(model_golden(hopper, {.mode = compiled, .precision = mixed}));
  all.push_back(model_golden(
      hopper, {.mode = compiled, .precision = fp32, .max_norm = 1, .epilogues_win = true}));
  all.push_back(model_golden(
      hopper, {.mode = compiled, .precision = mixed, .budget = Bytes{int64_t{24} << 20}}));
  all.push_back(model_golden(hopper, {.mode = compiled, .precision = mixed, .layers = 12}));
  all.push_back(model_golden(ampere, {.mode = compiled, .precision = mixed, .max_norm = 1}));
}

inline std::vector<GoldenWorkload> golden_workloads() {
  using enum Target;
  std::vector<GoldenWorkload> all;
  add_attention_goldens(all);
  add_model_goldens(all);
  for (Target target : {cpu, hopper})
    for (DType dtype : {DType::f32, DType::bf16})
      for (bool compiled : {false, true}) all.push_back(ops_golden(target, dtype, compiled));
  for (DType dtype : {DType::f32, DType::bf16})
    for (bool epilogues_win : {false, true}) all.push_back(products_golden(dtype, epilogues_win));
  all.push_back(kernel_golden(cpu, DType::bf16, 64, true));
  all.push_back(kernel_golden(hopper, DType::bf16, 64, true));
  all.push_back(kernel_golden(hopper, DType::f16, 128, false));
  all.push_back(kernel_golden(ampere, DType::bf16, 128, true));
  all.push_back(gemm_golden(CudaGemm::naive));
  all.push_back(gemm_golden(CudaGemm::tiled));
  return all;
}

}  // namespace ridgeline::testing
