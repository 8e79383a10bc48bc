// Ranks that are threads of a test, each with a device and an executable of its own; and one
// process that adds the gradients of the same batches in the order of ranks.
#pragma once

#include <cmath>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "compile/executable.h"
#include "dist/threads_backend.h"
#include "models/adamw.h"
#include "runtime/cpu_device.h"

namespace ridgeline::testing {

// A training step, or the gradients alone as outputs "d_p", with the loss times `loss_weight`.
using MakeStep =
    std::function<Graph(bool gradients_alone, double loss_weight, const Rewrite& forward)>;
using Weights = std::map<std::string, std::vector<float>>;

inline const AdamWOptions kOptimizer{.learning_rate = 1e-2};

inline std::vector<float> drawn_values(const std::string& name, size_t count, int rank, int step) {
  std::vector<float> values(count);
  const auto seed = static_cast<double>(std::hash<std::string>{}(name) % 1000 + 7);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>(
        0.4 * std::sin(1.7 * static_cast<double>(i) + seed + 3.1 * rank + 0.37 * step));
  return values;
}

inline int64_t elements_of(const TensorView& view) {
  return element_count(view.shape);
}

// Parameters and moments as they begin; the data of a rank's batch; the optimizer's scalars.
inline void fill_beginning(Executable& executable, Device& device) {
  for (Value value : executable.graph().inputs()) {
    const InputInfo& input = executable.graph().input_info(value);
    const TensorView whole = executable.input(
        input.ranks > 1 || input.parts.empty() ? input.name
                                               : tensor_name(input.role, input.parts[0].parameter));
    if (input.parts.empty()) continue;
    if (input.ranks > 1) {
      const std::vector<float> zeros(static_cast<size_t>(elements_of(whole)));
      device.upload(whole, zeros.data());
    }
    for (const InputPart& part : input.parts) {
      const Executable::Held held = executable.held(tensor_name(input.role, part.parameter));
      std::vector<float> values(1 << 16);
      if (input.role == Role::parameter) values = drawn_values(part.parameter, values.size(), 0, 0);
      if (held.count > 0)
        device.upload({held.view.data, held.view.dtype, {held.count}, {1}},
                      &values[static_cast<size_t>(held.begin)]);
    }
  }
}

inline void fill_batch(Executable& executable, Device& device, int rank, int step) {
  for (Value value : executable.graph().inputs()) {
    const InputInfo& input = executable.graph().input_info(value);
    if (input.role == Role::step_scalars) {
      const auto scalars = adamw_scalars(kOptimizer, step, kOptimizer.learning_rate);
      device.upload(executable.input(input.name), scalars.data());
    }
    if (input.role != Role::data) continue;
    const TensorView view = executable.input(input.name);
    const auto count = static_cast<size_t>(elements_of(view));
    const bool is_same = input.name.starts_with("rope");
    const std::vector<float> values =
        drawn_values(input.name, count, is_same ? 0 : rank, is_same ? 0 : step);
    std::vector<int32_t> ids;
    for (float each : values) ids.push_back(static_cast<int32_t>(std::abs(each) * 200));
    device.upload(view, view.dtype == DType::i32 ? static_cast<const void*>(ids.data())
                                                 : static_cast<const void*>(values.data()));
  }
}

class ThreadRanks {
 public:
  ThreadRanks(const MakeStep& make, Mode mode, Distribution how) : group_(how.ranks), how_(how) {
    for (int rank = 0; rank < how.ranks; ++rank) {
      devices_.push_back(std::make_unique<CpuDevice>(CpuOptions{.threads = 1}));
      communicators_.push_back(group_.communicator(rank));
      const Trace trace = [&](const Rewrite& forward) {
        return make(false, 1.0 / how.ranks, forward);
      };
      executables_.push_back(std::make_unique<Executable>(
          trace, *devices_.back(),
          CompileOptions{
              .mode = mode, .distribution = how, .communicator = communicators_.back().get()}));
      executables_.back()->prepare();
      fill_beginning(*executables_.back(), *devices_.back());
    }
  }

  void step(int number) {
    std::vector<std::exception_ptr> failures(executables_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < executables_.size(); ++rank)
      threads.emplace_back([&, rank] {
        try {
          fill_batch(*executables_[rank], *devices_[rank], static_cast<int>(rank), number);
          executables_[rank]->run();
        } catch (...) {
          failures[rank] = std::current_exception();
        }
      });
    for (std::thread& thread : threads) thread.join();
    for (const std::exception_ptr& failure : failures)
      if (failure) std::rethrow_exception(failure);
  }

  // What a rank has; of shards what all of them have together.
  Weights weights(size_t rank) {
    Weights found;
    for (Value value : executable(rank).graph().inputs()) {
      const InputInfo& input = executable(rank).graph().input_info(value);
      if (input.role != Role::parameter) continue;
      for (const InputPart& part : input.parts) {
        std::vector<float>& values = found[part.parameter];
        for (size_t holder = 0; holder < executables_.size(); ++holder) {
          if (input.ranks == 1 && holder != rank) continue;
          const Executable::Held held = executable(holder).held(part.parameter);
          const auto begin = static_cast<size_t>(held.begin);
          values.resize(std::max(values.size(), begin + static_cast<size_t>(held.count)));
          if (held.count > 0)
            devices_[holder]->download({held.view.data, DType::f32, {held.count}, {1}},
                                       &values[begin]);
        }
      }
    }
    return found;
  }

  Executable& executable(size_t rank) { return *executables_[rank]; }
  CpuDevice& device(size_t rank) { return *devices_[rank]; }

 private:
  ThreadGroup group_;
  Distribution how_;
  std::vector<std::unique_ptr<CpuDevice>> devices_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<Executable>> executables_;
};

// The same steps in one process: batch by batch, gradients added in order, one update.
class OneProcess {
 public:
  OneProcess(const MakeStep& make, Mode mode, int batches)
      : batches_(batches),
        gradients_([&](const Rewrite& forward) { return make(true, 1.0 / batches, forward); },
                   device_, {.mode = mode}),
        update_([&](const Rewrite&) { return update_graph(gradients_.graph()); }, device_) {
    gradients_.prepare();
    update_.prepare();
    fill_beginning(gradients_, device_);
    fill_beginning(update_, device_);
  }

  void step(int number) {
    Weights sums;
    for (int batch = 0; batch < batches_; ++batch) {
      fill_batch(gradients_, device_, batch, number);
      gradients_.run();
      for (const auto& [name, values] : weights()) {
        std::vector<float> mine(values.size());
        const TensorView view = gradients_.output(gradient_name(name));
        for (size_t i = 0; i < mine.size(); ++i)
          mine[i] = view.host_scalar ? *view.as<float>() : flat_element(view, i);
        std::vector<float>& sum = sums[name];
        if (batch == 0) sum = mine;
        for (size_t i = 0; i < mine.size() && batch > 0; ++i) sum[i] += mine[i];
      }
    }
    fill_batch(update_, device_, 0, number);
    for (const auto& [name, values] : sums)
      device_.upload(update_.input(gradient_name(name)), values.data());
    update_.run();
    for (const auto& [name, values] : weights())
      device_.upload(gradients_.input(name), values.data());
  }

  Weights weights() {
    Weights found;
    for (Value value : update_.graph().inputs()) {
      const InputInfo& input = update_.graph().input_info(value);
      if (input.role != Role::parameter) continue;
      std::vector<float>& values = found[input.name];
      values.resize(static_cast<size_t>(elements_of(update_.input(input.name))));
      device_.download(update_.input(input.name), values.data());
    }
    return found;
  }

 private:
  static float flat_element(const TensorView& view, size_t flat) {
    int64_t offset = 0;
    auto left = static_cast<int64_t>(flat);
    for (int axis = view.shape.rank() - 1; axis >= 0; --axis) {
      offset += left % view.shape[axis] * view.strides[axis];
      left /= view.shape[axis];
    }
    return view.as<float>()[offset];
  }

  static Graph update_graph(const Graph& gradients) {
    Graph graph;
    std::vector<TrainedParameter> trained;
    for (Value value : gradients.inputs()) {
      const InputInfo& input = gradients.input_info(value);
      if (input.role != Role::parameter) continue;
      for (const InputPart& part : input.parts) {
        TensorType type = gradients.type(value);
        type.shape[0] = part.rows;
        trained.push_back({parameter(graph, part.parameter, type), {}});
      }
    }
    for (TrainedParameter& each : trained)
      each.gradient =
          ridgeline::input(graph, gradient_name(graph.name(each.value.value())), each.value.type());
    graph.begin_stage("optimizer");
    add_adamw_step(graph, trained, kOptimizer);
    return graph;
  }

  CpuDevice device_{{.threads = 1}};
  int batches_;
  Executable gradients_, update_;
};

}  // namespace ridgeline::testing
