#include "studies/peers/text_row.h"

#include "measure/statistics.h"
#include "studies/peers/row.h"
#include "studies/row.h"

namespace ridgeline {

std::optional<Record> run_worker_text(Worker& worker, Device& device, const PeerText& text,
                                      Record described) {
  const auto body = [&](Record& record) {
    Json request = open_request(device);
    request.update({{"study", "generate"},
                    {"implementation", record.implementation},
                    {"folder", std::filesystem::absolute(text.folder).string()},
                    {"prompt", text.prompt},
                    {"new_tokens", text.new_tokens},
                    {"batch_size", text.batch_size},
                    {"capacity", text.capacity},
                    {"dtype", info(text.dtype).name},
                    {"results", false}});
    const Json answer = ask_worker(worker, request);
    const OpenedRow opened = worker.parse_or_end([&] { return read_opened(answer); });
    record.memory.peak = opened.memory.peak;
    record.memory.process_peak_growth = opened.memory.process_peak_growth;
    WorkerSamples samples(worker, 2, text.protocol);
    sample_row(record, device, {.protocol = text.protocol, .interrupted = text.interrupted},
               {"prefill", "first_token"},
               [&](std::span<double> phase_ms) { samples.next(phase_ms); });
    const Json written = ask_worker(worker, {{"do", "decode"}});
    const DecodedText decoded =
        worker.parse_or_end([&] { return read_decoded(written, text.new_tokens); });
    if (!decoded.step_ms.empty())
      record.series.push_back({"decode", summarize(decoded.step_ms), decoded.step_ms});
    record.metrics = Json{{"tokens", decoded.tokens},
                          {"new_tokens", decoded.tokens.size()},
                          {"stopped_by", "max_new_tokens"}};
    if (opened.facts) (*record.metrics)["peer"] = *opened.facts;
    ask_worker(worker, {{"do", "close"}});
    if (opened.first_run_s) record.protocol.first_run_s = *opened.first_run_s;
  };
  return try_row(std::move(described), {}, body, fail_worker_row);
}

}  // namespace ridgeline
