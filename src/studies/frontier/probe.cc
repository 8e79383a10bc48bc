#include "studies/frontier/probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

#include "base/child_process.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/print.h"
#include "base/printable.h"

namespace ridgeline {

Words problem_words(const AttentionWorkload& workload) {
  const AttentionConfig& config = workload.config;
  Words words = {"--impl",       workload.implementation,
                 "--batch-size", fmt::to_string(config.batch_size),
                 "--heads",      fmt::to_string(config.heads),
                 "--d-model",    fmt::to_string(config.head_dim),
                 "--dtype",      std::string(info(config.dtype).name)};
  if (config.causal) words.emplace_back("--causal");
  return words;
}

ProbeResult parse_probe_answer(const std::string& line) {
  const Json answer = Json::try_parse(line).value_or(nullptr);
  if (const Json* peak = answer.find_key("peak_bytes"); peak && peak->is_number_integer())
    return {.outcome = ProbeResult::Outcome::fits, .peak = Bytes{peak->get<int64_t>()}};
  if (const Json* why = answer.find_key("out_of_memory"); why && why->is_string())
    return {.outcome = ProbeResult::Outcome::out_of_memory, .detail = why->text()};
  return {.detail = fmt::format("the probe answered '{}'", printable(line))};
}

std::optional<ProbeResult> probe_in_child(const AttentionWorkload& workload, ProbeMethod method,
                                          const ChildProbeOptions& options) {
  Words words = {"/proc/self/exe", kFrontierProbeCommand,
                 "--seq-len",      fmt::to_string(workload.config.seq_len),
                 "--method",       std::string(kProbeMethods[method].name)};
  for (const Words& more : {options.device_words, problem_words(workload)})
    words.insert(words.end(), more.begin(), more.end());
  const double begin = monotonic_s();
  ChildProcess child(words);
  const ChildProcess::Reply reply = child.read_line(
      {.seconds = parse_seconds(options.patience), .interrupted = options.interrupted});
  ProbeResult result;
  result.seconds = monotonic_s() - begin;
  switch (reply.outcome) {
    case ChildProcess::Outcome::interrupted:
      return std::nullopt;
    case ChildProcess::Outcome::too_slow:
      result.detail = fmt::format("no answer within {}", options.patience);
      return result;
    case ChildProcess::Outcome::ended: {
      const std::string how = child.end(5);
      result.outcome = how.starts_with("signal 9") ? ProbeResult::Outcome::out_of_memory
                                                   : ProbeResult::Outcome::failed;
      result.detail = fmt::format("the probe ended with {}{}{}", how,
                                  child.last_errors().empty() ? "" : ": ", child.last_errors());
      return result;
    }
    case ChildProcess::Outcome::too_long:
      result.detail = "an answer longer than any";
      return result;
    case ChildProcess::Outcome::line:
      break;
  }
  child.end(30);
  ProbeResult answer = parse_probe_answer(reply.line);
  answer.seconds = result.seconds;
  return answer;
}

void add_probe_flags(Flags& flags, ProbeFlags* probe) {
  flags.add("--impl", &probe->implementation, "implementation");
  flags.add("--dtype", &probe->dtype, "dtype");
  flags.add("--method", &probe->method, "run or allocate");
  flags.add("--batch-size", &probe->config.batch_size, "batch");
  flags.add("--heads", &probe->config.heads, "heads");
  flags.add("--d-model", &probe->config.head_dim, "width of one head");
  flags.add("--seq-len", &probe->config.seq_len, "length");
  flags.add("--causal", &probe->config.causal, "causal");
}

void prepare_probe_process() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int file = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
  if (file < 0) return;
  if (write(file, "1000", 4) < 0) { /* then the kernel chooses its victim */
  }
  close(file);
}

void answer_probe(const ProbeFlags& flags, Device& device) {
  AttentionWorkload workload{flags.config, flags.implementation};
  workload.config.dtype = parse_float_dtype(flags.dtype);
  workload.config.backward = backward_algorithm({}, device.facts());
  Json answer;
  try {
    const ProbeMethod method = kProbeMethods.find(flags.method).method;
    answer["peak_bytes"] = probe_length(workload, device, method).count;
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::out_of_memory) throw;
    answer["out_of_memory"] = error.message();
  }
  print("{}\n", answer.dump());
}

}  // namespace ridgeline
