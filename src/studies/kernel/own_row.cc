#include "studies/kernel/own_row.h"

#include <fmt/format.h>

#include <fstream>
#include <iterator>

#include "base/error.h"
#include "base/printable.h"
#include "studies/kernel/metrics.h"
#include "studies/peers/row.h"

namespace ridgeline {
namespace {

constexpr double kCompileLimit = 120;  // seconds

std::string read_source(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  if (!file.is_open() || file.bad() || text.empty())
    throw Error(ErrorKind::usage, fmt::format("--source {} cannot be read", path.string()),
                "give the path of a .cu file");
  return text;
}

}  // namespace

OwnKernelStudy::OwnKernelStudy(Device& device, OwnKernel kernel, KernelStudyOptions options)
    : device_(device),
      kernel_(std::move(kernel)),
      options_(std::move(options)),
      source_(read_source(kernel_.source)) {
  if (!device_.facts().is_gpu())
    throw Error(ErrorKind::unsupported,
                fmt::format("--source {}: a CUDA kernel needs a GPU; this is {}",
                            kernel_.source.string(), device_.name()),
                "run it with --device cuda on a machine that has one");
  options_.backward = false;
}

Worker& OwnKernelStudy::worker() {
  if (!worker_ || !worker_->usable())
    worker_ = std::make_unique<Worker>(WorkerOptions{.name = "the kernel",
                                                     .words = kernel_.worker_words,
                                                     .time_limit_s = kernel_.time_limit_s,
                                                     .interrupted = options_.row.interrupted});
  return *worker_;
}

std::optional<Json> OwnKernelStudy::compile(const KernelWorkload& workload) {
  const AttentionConfig& config = workload.config;
  const Json request = {
      {"do", "compile"},
      {"source", source_},
      {"file", printable(kernel_.source.filename().string(), 100)},
      {"entry", kernel_.entry},
      {"ordinal", device_.facts().ordinal},
      {"budget_bytes", device_.ledger().budget().count},
      {"shape", {config.batch_size, config.heads, config.seq_len, config.head_dim}},
      {"dtype", info(config.dtype).name},
      {"causal", config.causal}};
  return worker().ask(request, kCompileLimit);
}

std::optional<Record> OwnKernelStudy::run(const KernelWorkload& workload, Record record) {
  record.time = utc_now();
  const std::string problem = problem_of(workload);
  const auto give_up = [&](const Error& error) {
    fail_worker_row(record, error);
    return record;
  };
  if (const auto known = failed_problems_.find(problem); known != failed_problems_.end())
    return give_up(known->second);
  Json facts;
  try {
    device_.ledger().start_over();
    std::optional<Json> compiled = compile(workload);
    if (!compiled) return std::nullopt;
    facts = std::move(*compiled);
  } catch (const Error& error) {
    failed_problems_.emplace(problem, error);
    return give_up(error);
  }
  const WorkerRow row{.config = workload.config,
                      .gradients = false,
                      .series = kernel_series(false),
                      .request = kernel_request(record, device_)};
  std::optional<Record> done =
      run_worker_row(*worker_, tensors_, device_, row, options_.row, std::move(record));
  if (!done) return std::nullopt;
  if (done->status == Status::invalid || !worker_->usable())
    failed_problems_.emplace(problem, Error(ErrorKind::environment, done->error));
  done->metrics = done->metrics.value_or(Json::object());
  (*done->metrics)["own"] = std::move(facts);
  if (done->status == Status::ok) add_kernel_metrics(workload, device_, *done);
  return done;
}

}  // namespace ridgeline
