#include "studies/kernel/own_worker.h"

#include <istream>
#include <map>
#include <memory>
#include <ostream>
#include <string>

#include "base/clock.h"
#include "base/error.h"
#include "measure/record.h"
#include "runtime/cuda/cuda_device.h"
#include "studies/kernel/own_calls.h"
#include "studies/kernel/sampler.h"
#include "studies/peers/answers.h"

namespace ridgeline {
namespace {

AttentionConfig config_of(const Json& request) {
  const Json& shape = request.at("shape");
  return {.batch_size = shape.at(0).get<int64_t>(),
          .heads = shape.at(1).get<int64_t>(),
          .seq_len = shape.at(2).get<int64_t>(),
          .head_dim = shape.at(3).get<int64_t>(),
          .causal = request.at("causal").get<bool>(),
          .dtype = parse_float_dtype(request.at("dtype").get<std::string>())};
}

class OwnKernelWorker {
 public:
  // Compiles the kernel and keeps its code for later rows.
  Json compile(const Json& request) {
    if (!device_) {
      device_ = std::make_unique<CudaDevice>(
          CudaOptions{.ordinal = request.at("ordinal").get<int>(),
                      .budget = Bytes{request.at("budget_bytes").get<int64_t>()}});
    }
    const AttentionConfig config = config_of(request);
    const std::string source = request.at("source").text();
    const double begin = monotonic_s();
    launch_ = own_launch(source, config);
    code_ = compile_own_kernel(source, request.at("file").text(), request.at("entry").text(),
                               config, device_->cuda_facts().arch());
    entry_ = request.at("entry").text();
    return {{"registers", code_.registers},
            {"spill_bytes", code_.spill_bytes},
            {"compile_s", monotonic_s() - begin},
            {"grid", launch_.grid},
            {"block", launch_.block},
            {"shared_bytes", launch_.shared_bytes}};
  }

  Json open(const Json& request) {
    row_.reset();
    calls_ = nullptr;
    device_->ledger().start_over();
    const OwnKernelProblem problem{.config = config_of(request),
                                   .folder = request.at("folder").get<std::string>(),
                                   .copies = request.at("copies").get<int64_t>()};
    auto calls = std::make_unique<OwnKernelCalls>(*device_, code_, entry_, launch_, problem);
    calls_ = calls.get();
    const KernelSamplerOptions how{
        .mode = kKernelModes.find(request.at("mode").get<std::string>()).mode,
        .copies = problem.copies,
        .calls = request.at("calls").get<int>(),
        .cache = Bytes{request.at("cache_bytes").get<int64_t>()}};
    row_ = std::make_unique<KernelSampler>(std::move(calls), *device_, how);
    const double begin = monotonic_s();
    calls_->run_poisoned(false);
    const double first_run_s = monotonic_s() - begin;
    if (request.at("results").get<bool>()) calls_->write_output(problem.folder / "output");
    row_->prepare();
    return {{"first_run_s", first_run_s},
            {"memory", {{"peak_bytes", device_->ledger().peak().count}}}};
  }

  Json sample(const Json& request) {
    Json samples = Json::array();
    for (int i = 0; i < request.at("count").get<int>(); ++i) {
      std::array<double, 2> times{};
      row_->sample(times);
      samples.push_back(times);
    }
    return {{"samples", std::move(samples)}};
  }

  // Checks the bounds again, after all later calls.
  Json close(const Json&) {
    device_->synchronize();
    calls_->check_bounds();
    row_.reset();
    calls_ = nullptr;
    return Json::object();
  }

 private:
  std::unique_ptr<CudaDevice> device_;
  OwnLaunch launch_;
  OwnKernelCode code_;
  std::string entry_;
  std::unique_ptr<KernelSampler> row_;
  OwnKernelCalls* calls_ = nullptr;  // of row_
};

std::string_view refusal_word(ErrorKind kind) {
  for (const WorkerRefusal& refusal : worker_refusals())
    if (refusal.kind == kind) return refusal.word;
  return "invalid";
}

}  // namespace

void serve_own_kernel(std::istream& requests, std::ostream& answers) {
  using Handler = Json (OwnKernelWorker::*)(const Json&);
  static const std::map<std::string, Handler> kHandlers = {{"compile", &OwnKernelWorker::compile},
                                                           {"open", &OwnKernelWorker::open},
                                                           {"sample", &OwnKernelWorker::sample},
                                                           {"close", &OwnKernelWorker::close}};
  OwnKernelWorker worker;
  for (std::string line; std::getline(requests, line);) {
    Json answer;
    try {
      const Json request = Json::parse(line);
      answer = (worker.*kHandlers.at(request.at("do").text()))(request);
    } catch (const Error& error) {
      // A CUDA context is unusable after a fault.
      const bool fault = error.kind() == ErrorKind::environment;
      answer = {{"failed", refusal_word(error.kind())},
                {"error", fault ? "it faults: " + error.message() : error.message()},
                {"next_step", error.next_step()},
                {"leave", fault}};
    } catch (const std::exception& error) {  // a malformed request
      answer = {{"failed", "invalid"}, {"error", error.what()}, {"leave", true}};
    }
    answers << answer.dump() << '\n' << std::flush;
  }
}

}  // namespace ridgeline
