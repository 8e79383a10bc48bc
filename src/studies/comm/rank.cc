#include "studies/comm/rank.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "base/clock.h"
#include "base/error.h"
#include "base/larger.h"
#include "kernels/host_values.h"
#include "studies/ranks/tasks.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr int64_t kPage = 4096;

// A page-aligned buffer, as tensor allocators return it.
struct Pages {
  explicit Pages(int64_t bytes)
      : data(std::aligned_alloc(kPage, static_cast<size_t>((bytes + kPage - 1) / kPage * kPage))) {
    if (data == nullptr) throw std::bad_alloc();
  }
  ~Pages() { std::free(data); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  void* data;
};

// Small integers, whose sums over all ranks are exact in every dtype: bf16 holds all up to 256.
int value_of(int rank, int64_t i, int ranks) {
  const int range = 256 / ranks >= 8 ? 8 : 1;
  return static_cast<int>((i * 7 + rank * 13) % (2 * range + 1)) - range;
}

// Elements after which value_of() repeats, for either range.
constexpr int64_t kPeriod = 17 * 3;

// One rank's part of a row.
class RankPart {
 public:
  RankPart(Communicator& communicator, const CommWorkload& workload)
      : communicator_(communicator),
        workload_(workload),
        ranks_(communicator.size()),
        rank_(communicator.rank()),
        mine_(shard_of(workload.elements(), rank_, ranks_)),
        buffer_(workload.bytes.count) {
    char* shard = static_cast<char*>(buffer_.data) + mine_.begin * info(workload.dtype).size;
    const bool gathers = workload.collective == CollectiveKind::all_gather;
    const bool scatters = workload.collective == CollectiveKind::reduce_scatter;
    what_ = {.kind = workload.collective,
             .dtype = workload.dtype,
             .count = workload.elements(),
             .in = gathers ? shard : buffer_.data,
             .out = scatters ? shard : buffer_.data};
  }

  void fill() {
    const int64_t count = workload_.elements();
    for (int64_t i = 0; i < std::min(count, kPeriod); ++i)
      store_one(workload_.dtype, static_cast<float>(value_of(rank_, i, ranks_)), buffer_.data, i);
    repeat();
    // Poison what all-gather has to receive.
    if (workload_.collective != CollectiveKind::all_gather) return;
    const int size = info(workload_.dtype).size;
    char* bytes = static_cast<char*>(buffer_.data);
    std::memset(bytes, 0xff, static_cast<size_t>(mine_.begin * size));
    const int64_t end = mine_.begin + mine_.count;
    std::memset(bytes + end * size, 0xff, static_cast<size_t>((count - end) * size));
  }

  double run_ms() {
    communicator_.barrier();
    const int64_t began = monotonic_ns();
    communicator_.run(what_);
    return static_cast<double>(monotonic_ns() - began) / 1e6;
  }

  // The largest error in this rank's result.
  double error() const {
    const bool scatters = workload_.collective == CollectiveKind::reduce_scatter;
    const int64_t begin = scatters ? mine_.begin : 0;
    const int64_t end = scatters ? mine_.begin + mine_.count : workload_.elements();
    double worst = 0;
    int owner = 0;
    for (int64_t i = begin; i < end; ++i) {
      float expected = 0;
      switch (workload_.collective) {
        case CollectiveKind::all_gather: {
          Shard shard = shard_of(workload_.elements(), owner, ranks_);
          while (i >= shard.begin + shard.count)
            shard = shard_of(workload_.elements(), ++owner, ranks_);
          expected = static_cast<float>(value_of(owner, i, ranks_));
          break;
        }
        case CollectiveKind::broadcast:
          expected = static_cast<float>(value_of(0, i, ranks_));
          break;
        default:
          expected = sums_[static_cast<size_t>(i % kPeriod)];
      }
      worst =
          larger<double>(worst, std::abs(load_one(workload_.dtype, buffer_.data, i) - expected));
    }
    return worst;
  }

 private:
  void repeat() {
    const int64_t total = workload_.elements() * info(workload_.dtype).size;
    char* bytes = static_cast<char*>(buffer_.data);
    for (int64_t done = std::min(total, kPeriod * info(workload_.dtype).size); done < total;) {
      const int64_t length = std::min(done, total - done);
      std::memcpy(bytes + done, bytes, static_cast<size_t>(length));
      done += length;
    }
    for (int64_t i = 0; i < kPeriod; ++i) {
      int sum = 0;
      for (int rank = 0; rank < ranks_; ++rank) sum += value_of(rank, i, ranks_);
      sums_[static_cast<size_t>(i)] = static_cast<float>(sum);
    }
  }

  Communicator& communicator_;
  const CommWorkload& workload_;
  int ranks_, rank_;
  Shard mine_;
  Pages buffer_;
  Collective what_;
  std::array<float, kPeriod> sums_ = {};
};

struct CommAnswer {
  Measurement measurement;  // on rank 0; empty elsewhere
  double max_error = 0;     // of any rank, against the exact result
  std::string library;
};
// Called by all ranks with the same request. Only rank 0 polls `interrupted`.
CommAnswer measure_collective(Communicator& communicator, const CommRequest& request,
                              const std::function<bool()>& interrupted) {
  RankPart part(communicator, request.workload);
  CommAnswer answer{.measurement = {}, .library = communicator.facts().library};
  const auto check = [&] {
    part.fill();
    part.run_ms();
    for (const double error : all_gather_values(communicator, part.error()))
      answer.max_error = larger(answer.max_error, error);
  };
  part.fill();
  if (request.verify) check();
  const auto sample = [&](std::span<double> phase_ms) {
    const std::vector<double> times = all_gather_values(communicator, part.run_ms());
    if (phase_ms.empty()) return;
    phase_ms[0] = *std::ranges::max_element(times);
    phase_ms[2] = *std::ranges::min_element(times);
    phase_ms[1] = 0;
    for (const double time : times) phase_ms[1] += time / static_cast<double>(times.size());
  };
  if (communicator.rank() == 0) {
    answer.measurement = measure(request.protocol, {kCommPhase, kMeanRank, kFastest},
                                 [&](std::span<double> phase_ms) {
                                   broadcast_continue(communicator, true);
                                   sample(phase_ms);
                                 },
                                 {.interrupted = interrupted});
    broadcast_continue(communicator, false);
  } else {
    while (broadcast_continue(communicator, true)) sample({});
  }
  if (request.verify) check();  // again, in the state that was timed
  return answer;
}

}  // namespace

Json to_json(const CommRequest& request) {
  Json json = {{"task", "comm"},
               {"collective", name(request.workload.collective)},
               {"bytes", request.workload.bytes.count},
               {"ranks", request.workload.ranks},
               {"dtype", info(request.workload.dtype).name},
               {"backend", request.workload.backend},
               {"verify", request.verify}};
  add_protocol(json, request.protocol);
  return json;
}

CommRequest comm_request(const Json& json) {
  return {.workload = {.collective = parse_collective(json["collective"].text()),
                       .bytes = Bytes{json["bytes"].get<int64_t>()},
                       .ranks = json["ranks"].get<int>(),
                       .dtype = parse_float_dtype(json["dtype"].text()),
                       .backend = json["backend"].text()},
          .protocol = protocol_in(json),
          .verify = json["verify"].get<bool>()};
}

std::string comm_label(const Json& request) {
  return label(comm_request(request).workload);
}

Record comm_task(Communicator& communicator, const Json& json,
                 const std::function<bool()>& interrupted) {
  const CommRequest request = comm_request(json);
  const CommAnswer answer = measure_collective(communicator, request, interrupted);
  if (answer.measurement.interrupted()) throw Interrupted();
  Record record;
  record.series = answer.measurement.series;
  record.protocol = answer.measurement.protocol;
  record.metrics = Json{{"backend", request.workload.backend}, {"library", answer.library}};
  if (request.verify)
    take_verification(record, {.checked = true,
                               .what = "all elements of all ranks",
                               .oracle = "exact sums of whole numbers",
                               .tensors = {{"result", answer.max_error, 0}}});
  return record;
}

}  // namespace ridgeline
