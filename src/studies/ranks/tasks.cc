#include "studies/ranks/tasks.h"

#include <fmt/format.h>

#include "base/error.h"
#include "studies/comm/rank.h"
#include "studies/ddp/rank.h"

namespace ridgeline {
namespace {

constexpr RankTask kTasks[] = {
    {"comm", comm_label, comm_task},
    {"ddp", ddp_label, ddp_task},
};

}  // namespace

const RankTask& find_task(const Json& request) {
  const std::string name = request["task"].text();
  for (const RankTask& task : kTasks)
    if (task.name == name) return task;
  throw Error(ErrorKind::usage, fmt::format("ranks were asked for '{}'", name),
              "they know 'comm' and 'ddp'");
}

void take_results(Record answer, Record& record) {
  record.series = std::move(answer.series);
  record.protocol = std::move(answer.protocol);
  record.metrics = std::move(answer.metrics);
  record.verification = std::move(answer.verification);
  record.status = answer.status;
  record.error = std::move(answer.error);
  if (answer.memory.peak) record.memory.peak = answer.memory.peak;
  if (answer.memory.predicted_peak) record.memory.predicted_peak = answer.memory.predicted_peak;
}

std::vector<double> all_gather_values(Communicator& communicator, double mine) {
  std::vector<double> all(static_cast<size_t>(communicator.size()));
  double& place = all[static_cast<size_t>(communicator.rank())];
  place = mine;
  communicator.run({.kind = CollectiveKind::all_gather,
                    .dtype = DType::i32,
                    .count = 2 * communicator.size(),
                    .in = &place,
                    .out = all.data()});
  return all;
}

bool broadcast_continue(Communicator& communicator, bool on) {
  int32_t word = on ? 1 : 0;
  communicator.run({.kind = CollectiveKind::broadcast,
                    .dtype = DType::i32,
                    .count = 1,
                    .in = &word,
                    .out = &word});
  return word != 0;
}

void add_protocol(Json& request, const Protocol& protocol) {
  request["warmups"] = protocol.warmups;
  request["min_warmup_s"] = protocol.min_warmup_s;
  request["iterations"] = protocol.iterations;
  request["time_budget_s"] = protocol.time_budget_s;
  request["min_iterations"] = protocol.min_iterations;
  request["target_precision"] = protocol.target_precision;
}

Protocol protocol_in(const Json& request) {
  return {.warmups = request["warmups"].get<int>(),
          .min_warmup_s = request["min_warmup_s"].get<double>(),
          .iterations = request["iterations"].get<int>(),
          .time_budget_s = request["time_budget_s"].get<double>(),
          .min_iterations = request["min_iterations"].get<int>(),
          .target_precision = request["target_precision"].get<double>()};
}

}  // namespace ridgeline
