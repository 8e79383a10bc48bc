#include "studies/comm/rank.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <istream>
#include <limits>
#include <ostream>

#include "base/clock.h"
#include "base/error.h"
#include "base/float16.h"
#include "measure/record_json.h"
#include "studies/row.h"

namespace ridgeline {
namespace {

constexpr double kNextRequestS = 1e6;  // the watch sees whether rank 0 is still there
constexpr const char* kStop = "stop";
constexpr int64_t kPage = 4096;

// A buffer of pages, as allocators of tensors give them.
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

// Small whole numbers, whose sums over all ranks are exact in every type: bf16 holds all up to 256.
int value_of(int rank, int64_t i, int ranks) {
  const int range = 256 / ranks >= 8 ? 8 : 1;
  return static_cast<int>((i * 7 + rank * 13) % (2 * range + 1)) - range;
}

// The pattern of a rank repeats.
constexpr int64_t kPeriod = 17 * 3;

void store_value(DType dtype, void* data, int64_t i, float value) {
  if (dtype == DType::f32)
    static_cast<float*>(data)[i] = value;
  else
    static_cast<uint16_t*>(data)[i] =
        dtype == DType::bf16 ? float_to_bf16(value) : float_to_f16(value);
}

float load_value(DType dtype, const void* data, int64_t i) {
  if (dtype == DType::f32) return static_cast<const float*>(data)[i];
  const uint16_t bits = static_cast<const uint16_t*>(data)[i];
  return dtype == DType::bf16 ? bf16_to_float(bits) : f16_to_float(bits);
}

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
      store_value(workload_.dtype, buffer_.data, i, static_cast<float>(value_of(rank_, i, ranks_)));
    repeat();
    // What all-gather has to bring must not be there before.
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

  // The largest error of what this rank has got.
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
      const double error = std::abs(load_value(workload_.dtype, buffer_.data, i) - expected);
      if (!(error <= worst)) worst = error;  // NaN, too
      if (std::isnan(worst)) return worst;
    }
    return worst;
  }

  // All ranks get the number of each.
  std::vector<double> gathered(double mine) {
    std::vector<double> all(static_cast<size_t>(ranks_));
    all[static_cast<size_t>(rank_)] = mine;
    communicator_.run({.kind = CollectiveKind::all_gather,
                       .dtype = DType::i32,
                       .count = 2 * ranks_,
                       .in = &all[static_cast<size_t>(rank_)],
                       .out = all.data()});
    return all;
  }

  // Whether rank 0 goes on.
  bool goes_on(bool on) {
    int32_t word = on ? 1 : 0;
    communicator_.run({.kind = CollectiveKind::broadcast,
                       .dtype = DType::i32,
                       .count = 1,
                       .in = &word,
                       .out = &word});
    return word != 0;
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

}  // namespace

Json to_json(const CommRequest& request) {
  const Protocol& protocol = request.protocol;
  return {{"collective", name(request.workload.collective)},
          {"bytes", request.workload.bytes.count},
          {"ranks", request.workload.ranks},
          {"dtype", info(request.workload.dtype).name},
          {"backend", request.workload.backend},
          {"warmups", protocol.warmups},
          {"min_warmup_s", protocol.min_warmup_s},
          {"iterations", protocol.iterations},
          {"time_budget_s", protocol.time_budget_s},
          {"min_iterations", protocol.min_iterations},
          {"target_precision", protocol.target_precision},
          {"verify", request.verify}};
}

CommRequest comm_request(const Json& json) {
  return {.workload = {.collective = parse_collective(json["collective"].text()),
                       .bytes = Bytes{json["bytes"].get<int64_t>()},
                       .ranks = json["ranks"].get<int>(),
                       .dtype = parse_float_dtype(json["dtype"].text()),
                       .backend = json["backend"].text()},
          .protocol = {.warmups = json["warmups"].get<int>(),
                       .min_warmup_s = json["min_warmup_s"].get<double>(),
                       .iterations = json["iterations"].get<int>(),
                       .time_budget_s = json["time_budget_s"].get<double>(),
                       .min_iterations = json["min_iterations"].get<int>(),
                       .target_precision = json["target_precision"].get<double>()},
          .verify = json["verify"].get<bool>()};
}

CommAnswer measure_collective(Communicator& communicator, const CommRequest& request,
                              const std::function<bool()>& interrupted) {
  RankPart part(communicator, request.workload);
  CommAnswer answer{.measurement = {}, .library = communicator.facts().library};
  const auto check = [&] {
    part.fill();
    part.run_ms();
    for (const double error : part.gathered(part.error()))
      if (!(error <= answer.max_error)) answer.max_error = error;
  };
  part.fill();
  if (request.verify) check();
  const auto sample = [&](std::span<double> phase_ms) {
    const std::vector<double> times = part.gathered(part.run_ms());
    if (phase_ms.empty()) return;
    phase_ms[0] = *std::ranges::max_element(times);
    phase_ms[2] = *std::ranges::min_element(times);
    phase_ms[1] = 0;
    for (const double time : times) phase_ms[1] += time / static_cast<double>(times.size());
  };
  if (communicator.rank() == 0) {
    answer.measurement = measure(request.protocol, {kSlowest, kMeanRank, kFastest},
                                 [&](std::span<double> phase_ms) {
                                   part.goes_on(true);
                                   sample(phase_ms);
                                 },
                                 {.interrupted = interrupted});
    part.goes_on(false);
  } else {
    while (part.goes_on(true)) sample({});
  }
  if (request.verify) check();  // what was timed is what was checked
  return answer;
}

void take_answer(const CommAnswer& answer, const CommRequest& request, Record& record) {
  if (answer.measurement.interrupted()) throw Interrupted();
  record.series = answer.measurement.series;
  record.protocol = answer.measurement.protocol;
  record.metrics = Json{{"backend", request.workload.backend}, {"library", answer.library}};
  if (request.verify)
    take_verification(record, {.checked = true,
                               .what = "all elements of all ranks",
                               .oracle = "exact sums of whole numbers",
                               .tensors = {{"result", answer.max_error, 0}}});
}

CommAnswer CommWorld::measure(const CommRequest& request,
                              const std::function<bool()>& interrupted) {
  const std::string& backend = request.workload.backend;
  if (!communicator_ || communicator_->facts().backend != backend) {
    communicator_.reset();
    communicator_ = world_.communicator(backend);
  }
  world_.activity().set(label(request.workload));
  CommAnswer answer = measure_collective(*communicator_, request, interrupted);
  world_.activity().set("waiting for the next row");
  return answer;
}

CommAnswer CommWorld::ask(const CommRequest& request, const std::function<bool()>& interrupted) {
  world_.store().set(fmt::format("request {}", requests_++), to_json(request).dump());
  return measure(request, interrupted);
}

void CommWorld::stop() {
  world_.store().set(fmt::format("request {}", requests_++), kStop);
  communicator_.reset();
}

void CommWorld::serve() {
  world_.activity().set("waiting for the next row");
  while (true) {
    const std::string request =
        world_.store().get(fmt::format("request {}", requests_++), kNextRequestS);
    if (request == kStop) break;
    measure(comm_request(Json::parse(request)), {});
  }
  communicator_.reset();
}

int serve_comm_rank(const std::string& build, std::istream& requests, std::ostream& answers) {
  const std::optional<LaunchedRank> launched = launched_rank();
  if (!launched)
    throw Error(ErrorKind::usage, "no launcher has started this process as a rank",
                "`ridgeline comm` starts its ranks itself");
  World world(*launched, {.build = build, .configuration = kCommRankCommand});
  CommWorld ranks(world);
  if (world.rank() != 0) {
    ranks.serve();
    return 0;
  }
  world.activity().set("waiting for the next row");
  for (std::string line; std::getline(requests, line);) {
    const CommRequest request = comm_request(Json::parse(line));
    Record record;
    take_answer(ranks.ask(request), request, record);
    answers << to_line(record) << std::flush;
  }
  ranks.stop();
  return 0;
}

}  // namespace ridgeline
