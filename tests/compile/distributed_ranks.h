// Ranks of tests, each with a device and an executable of its own; one process that adds the
// gradients of the same batches in the order of ranks; and the same in fp64.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "compile/executable.h"
#include "dist/device_communicator.h"
#include "dist/threads_backend.h"
#include "models/adamw.h"
#include "runtime/cpu_device.h"
#include "studies/host_tensors.h"
#include "support/interpreter/interpreter.h"

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
  HostThreads threads(device);
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
      if (input.role == Role::parameter || input.role == Role::copy)
        values = drawn_values(part.parameter, values.size(), 0, 0);
      if (held.count > 0)
        upload_rounded(device, {held.view.data, held.view.dtype, {held.count}, {1}},
                       std::span(values).subspan(static_cast<size_t>(held.begin),
                                                 static_cast<size_t>(held.count)),
                       threads.runner());
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

// Where a rank computes.
using MakeDevice = std::function<std::unique_ptr<Device>()>;
inline std::unique_ptr<Device> one_thread() {
  return std::make_unique<CpuDevice>(CpuOptions{.threads = 1});
}

// One rank of a training step, with a device of its own.
class OneRank {
 public:
  OneRank(const MakeStep& make, Mode mode, const Distribution& how, Communicator& host,
          const MakeDevice& make_device, const std::string& backend)
      : device_(make_device()), rank_(host.rank()) {
    if (DeviceQueue* queue = device_->communication_queue())
      over_device_ = make_device_communicator(host, *queue, backend);
    CompileOptions options{.mode = mode,
                           .distribution = how,
                           .communicator = over_device_ ? over_device_.get() : &host};
    if (device_->facts().deterministic) options.backward = BackwardAlgorithm::two_pass;
    const Trace trace = [&](const Rewrite& forward) {
      return make(false, 1.0 / how.ranks, forward);
    };
    executable_ = std::make_unique<Executable>(trace, *device_, options);
    executable_->prepare();
    fill_beginning(*executable_, *device_);
  }

  void step(int number) {
    fill_batch(*executable_, *device_, rank_, number);
    executable_->run();
    device_->synchronize();
  }

  // Writes what this rank has of each parameter to its place, and leaves the rest as it is.
  void write_held(Weights& weights) const {
    for (Value value : executable_->graph().inputs()) {
      const InputInfo& input = executable_->graph().input_info(value);
      if (input.role != Role::parameter) continue;
      for (const InputPart& part : input.parts) {
        const Executable::Held held = executable_->held(part.parameter);
        std::vector<float>& values = weights[part.parameter];
        const auto begin = static_cast<size_t>(held.begin);
        values.resize(std::max(values.size(), begin + static_cast<size_t>(held.count)));
        if (held.count > 0)
          device_->download({held.view.data, DType::f32, {held.count}, {1}}, &values[begin]);
      }
    }
  }

  Executable& executable() { return *executable_; }
  Device& device() { return *device_; }
  const CommunicatorFacts& facts() const { return over_device_->facts(); }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Communicator> over_device_;
  std::unique_ptr<Executable> executable_;
  int rank_;
};

class ThreadRanks {
 public:
  ThreadRanks(const MakeStep& make, Mode mode, Distribution how,
              const MakeDevice& device = one_thread, const std::string& backend = "threads")
      : group_(how.ranks), is_sharded_(info(how.strategy).shards_moments) {
    for (int rank = 0; rank < how.ranks; ++rank) {
      communicators_.push_back(group_.communicator(rank));
      ranks_.push_back(
          std::make_unique<OneRank>(make, mode, how, *communicators_.back(), device, backend));
    }
  }

  void step(int number) {
    std::vector<std::exception_ptr> failures(ranks_.size());
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < ranks_.size(); ++rank)
      threads.emplace_back([&, rank] {
        try {
          ranks_[rank]->step(number);
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
    for (size_t holder = 0; holder < ranks_.size(); ++holder)
      if (holder == rank || is_sharded_) ranks_[holder]->write_held(found);
    return found;
  }

  Executable& executable(size_t rank) { return ranks_[rank]->executable(); }
  Device& device(size_t rank) { return ranks_[rank]->device(); }
  const CommunicatorFacts& facts(size_t rank) const { return ranks_[rank]->facts(); }

 private:
  ThreadGroup group_;
  bool is_sharded_;
  std::vector<std::unique_ptr<Communicator>> communicators_;
  std::vector<std::unique_ptr<OneRank>> ranks_;
};

// The same steps in one process: batch by batch, gradients added in order, one update.
class OneProcess {
 public:
  OneProcess(const MakeStep& make, Mode mode, int batches, const MakeDevice& device = one_thread)
      : of_process_(device()),
        batches_(batches),
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
        const std::vector<float> mine = gradient_of(name, values.size());
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
  std::vector<float> gradient_of(const std::string& name, size_t count) {
    const TensorView view = gradients_.output(gradient_name(name));
    if (view.host_scalar) return std::vector<float>(count, *view.as<float>());
    const std::vector<double> values = read_values(device_, view);
    return {values.begin(), values.end()};
  }

 public:
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

 private:
  std::unique_ptr<Device> of_process_;
  Device& device_ = *of_process_;
  int batches_;
  Executable gradients_, update_;
};

// The same in fp64, by the interpreter.
class ExactProcess {
 public:
  ExactProcess(const MakeStep& make, int batches)
      : batches_(batches),
        gradients_(make(true, 1.0 / batches, [](const Graph& graph) { return graph; })),
        update_(OneProcess::update_graph(gradients_)) {
    for (Value value : update_.inputs()) {
      const InputInfo& input = update_.input_info(value);
      const auto count = static_cast<size_t>(element_count(update_.type(value).shape));
      if (input.role == Role::parameter) {
        const std::vector<float> drawn = drawn_values(input.name, count, 0, 0);
        state_[input.name].assign(drawn.begin(), drawn.end());
      } else if (input.role == Role::first_moment || input.role == Role::second_moment) {
        state_[input.name].assign(count, 0);
      }
    }
  }

  void step(int number) {
    InterpreterInputs inputs = state_;
    for (int batch = 0; batch < batches_; ++batch) {
      InterpreterInputs of_batch = state_;
      add_batch(gradients_, batch, number, of_batch);
      const auto values = interpret(gradients_, of_batch);
      for (const Output& output : gradients_.outputs()) {
        if (!output.name.starts_with(gradient_name(""))) continue;
        const std::vector<double>& mine = values[gradients_.index(output.value)];
        std::vector<double>& sum = inputs[output.name];
        sum.resize(mine.size());
        for (size_t i = 0; i < mine.size(); ++i) sum[i] += mine[i];
      }
    }
    add_batch(update_, 0, number, inputs);
    const auto values = interpret(update_, inputs);
    for (const Output& output : update_.outputs())
      if (const auto found = state_.find(output.name); found != state_.end())
        found->second = values[update_.index(output.value)];
  }

  // The 2-norm of what all parameters differ by.
  double error_of(const Weights& weights) const {
    double sum = 0;
    for (const auto& [name, values] : weights) {
      const std::vector<double>& exact = state_.at(name);
      if (exact.size() != values.size()) return std::numeric_limits<double>::infinity();
      for (size_t i = 0; i < values.size(); ++i)
        sum += (values[i] - exact[i]) * (values[i] - exact[i]);
    }
    return std::sqrt(sum);
  }

 private:
  static void add_batch(const Graph& graph, int batch, int step, InterpreterInputs& inputs) {
    for (Value value : graph.inputs()) {
      const InputInfo& input = graph.input_info(value);
      const bool is_step = input.role == Role::step_scalars;
      if (!is_step && (input.role != Role::data || inputs.contains(input.name))) continue;
      const auto count = static_cast<size_t>(element_count(graph.type(value).shape));
      std::vector<double>& to = inputs[input.name];
      if (is_step) {
        const auto scalars = adamw_scalars(kOptimizer, step, kOptimizer.learning_rate);
        to.assign(scalars.begin(), scalars.end());
        continue;
      }
      const bool is_same = input.name.starts_with("rope");
      for (float each : drawn_values(input.name, count, is_same ? 0 : batch, is_same ? 0 : step))
        to.push_back(graph.type(value).dtype == DType::i32
                         ? static_cast<int32_t>(std::abs(each) * 200)
                         : each);
    }
  }

  int batches_;
  Graph gradients_, update_;
  InterpreterInputs state_;
};

inline void expect_same_bits(const Weights& a, const Weights& b, const std::string& where) {
  ASSERT_EQ(a.size(), b.size()) << where;
  for (const auto& [name, values] : a)
    for (size_t i = 0; i < values.size(); ++i)
      ASSERT_EQ(std::bit_cast<uint32_t>(values[i]), std::bit_cast<uint32_t>(b.at(name)[i]))
          << where << ", " << name << " " << i << ": " << values[i] << " and " << b.at(name)[i];
}

}  // namespace ridgeline::testing
