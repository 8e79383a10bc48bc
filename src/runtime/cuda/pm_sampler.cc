// Samples a GPU's counters over time with CUPTI's PM sampling.
//
// The hardware writes a record per interval into a buffer, which is decoded once, after the work. A
// full buffer or image loses records, so both hold the whole pass, with room for one that takes
// twice as long. Sampling is disabled between passes, so that it does not affect timings there.
#include <fmt/format.h>

#include <algorithm>
#include <string_view>

#include "base/clock.h"
#include "runtime/cuda/pm_sampling_api.h"
#include "runtime/utilisation.h"

namespace ridgeline {
namespace {

using namespace cupti;

constexpr double kLeastS = 0.1;
constexpr double kPlannedSamples = 2000;
constexpr uint32_t kMostSamples = 4000;
constexpr size_t kSampleBytes = size_t{128} << 20;  // a sample takes about 7 KiB on GH100
constexpr double kSysclkHz = 1.4e9;                 // approximate, for intervals in cycles
constexpr std::string_view kChipWithoutTimeIntervals = "GA100";

// The counters of one sample.
struct Counts {
  double sm_active = 0, tensor_active = 0;  // percent
  double dram_read = 0, dram_write = 0;     // bytes
  double sm_cycles = 0;
};

struct Metric {
  const char* name;
  double Counts::*count;
};
// They take one hardware pass on GA100, GA102, AD102, GH100 and GB100. Those that a chip lacks, as
// GB202 lacks those of memory, are left out.
constexpr Metric kMetrics[] = {
    {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed", &Counts::sm_active},
    {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", &Counts::tensor_active},
    {"dram__bytes_read.sum", &Counts::dram_read},
    {"dram__bytes_write.sum", &Counts::dram_write},
    {"sm__cycles_elapsed.avg", &Counts::sm_cycles},
};

template <class P>
P params() {
  P made;
  made.struct_size = kParamsBytes<P>;
  return made;
}

// Maps metrics to the counters of a chip, on the host; needs no GPU.
class CounterConfig {
 public:
  explicit CounterConfig(const SamplingApi& api) : api_(api) {}
  ~CounterConfig() { close(); }
  CounterConfig(const CounterConfig&) = delete;
  CounterConfig& operator=(const CounterConfig&) = delete;

  // Configures all metrics that the chip supports in one call, as further calls would add passes.
  std::string configure(const char* chip, const uint8_t* availability) {
    metrics_.assign(std::begin(kMetrics), std::end(kMetrics));
    std::string why_not = add(chip, availability);
    if (!why_not.empty()) {
      std::erase_if(metrics_, [&](const Metric& metric) {
        CounterConfig alone(api_);
        alone.metrics_ = {metric};
        return !alone.add(chip, availability).empty();
      });
      if (!has(&Counts::sm_active)) return why_not;
      why_not = add(chip, availability);
    }
    return why_not.empty() ? make_image() : why_not;
  }

  bool has(double Counts::*count) const {
    return std::ranges::find(metrics_, count, &Metric::count) != metrics_.end();
  }
  HostObject host() const { return host_; }
  std::vector<const char*>& names() { return names_; }
  const std::vector<Metric>& metrics() const { return metrics_; }
  const std::vector<uint8_t>& image() const { return image_; }

 private:
  void close() {
    auto end = params<HostDeinitializeParams>();
    end.host = host_;
    if (host_ != nullptr) api_.cuptiProfilerHostDeinitialize(&end);
    host_ = nullptr;
  }

  std::string add(const char* chip, const uint8_t* availability) {
    close();
    auto host = params<HostInitializeParams>();
    host.chip = chip;
    host.availability = availability;
    if (const Result result = api_.cuptiProfilerHostInitialize(&host); result != kSuccess)
      return explain("asking CUPTI for the counters of the chip", result);
    host_ = host.host;
    names_.clear();
    for (const Metric& metric : metrics_) names_.push_back(metric.name);
    auto metrics = params<HostConfigAddMetricsParams>();
    metrics.host = host_;
    metrics.names = names_.data();
    metrics.count = names_.size();
    const Result result = api_.cuptiProfilerHostConfigAddMetrics(&metrics);
    return result == kSuccess ? "" : explain("choosing counters by CUPTI", result);
  }

  std::string make_image() {
    auto size = params<HostGetConfigImageSizeParams>();
    size.host = host_;
    Result result = api_.cuptiProfilerHostGetConfigImageSize(&size);
    auto get = params<HostGetConfigImageParams>();
    auto count = params<HostGetNumOfPassesParams>();
    if (result == kSuccess) {
      image_.resize(size.bytes);
      get.host = host_;
      get.bytes = count.bytes = image_.size();
      get.image = count.image = image_.data();
      result = api_.cuptiProfilerHostGetConfigImage(&get);
    }
    if (result == kSuccess) result = api_.cuptiProfilerHostGetNumOfPasses(&count);
    if (result != kSuccess) return explain("configuring counters by CUPTI", result);
    if (count.passes == 1) return {};
    return fmt::format("the counters need {} passes of the hardware, and sampling has one",
                       count.passes);
  }

  std::string explain(const char* what, Result result) const {
    return explain_cupti(api_.cuptiGetResultString, what, result);
  }

  SamplingApi api_;
  HostObject host_ = nullptr;
  std::vector<Metric> metrics_;
  std::vector<const char*> names_;
  std::vector<uint8_t> image_;
};

class PmSampler : public UtilisationSource {
 public:
  PmSampler(const SamplingApi& api, size_t device) : api_(api), device_(device), config_(api) {}
  ~PmSampler() override { disable(); }

  std::string open() {
    auto initialize = params<ProfilerInitializeParams>();
    if (const Result result = api_.cuptiProfilerInitialize(&initialize); result != kSuccess)
      return explain("starting CUPTI's profiler", result);
    auto chip = params<GetChipNameParams>();
    chip.device = device_;
    if (const Result result = api_.cuptiDeviceGetChipName(&chip);
        result != kSuccess || chip.chip == nullptr)
      return explain("asking CUPTI for the chip", result);
    has_time_intervals_ = chip.chip != kChipWithoutTimeIntervals;
    auto availability = params<GetCounterAvailabilityParams>();
    availability.device = device_;
    Result result = api_.cuptiPmSamplingGetCounterAvailability(&availability);
    std::vector<uint8_t> image(availability.bytes);
    availability.image = image.data();
    if (result == kSuccess) result = api_.cuptiPmSamplingGetCounterAvailability(&availability);
    if (result != kSuccess) return explain("asking CUPTI which counters may be read", result);
    return config_.configure(chip.chip, image.data());
  }

  double least_s() const override { return kLeastS; }

  std::string prepare(double expected_s) override {
    auto enable = params<SamplingEnableParams>();
    enable.device = device_;
    if (const Result result = api_.cuptiPmSamplingEnable(&enable); result != kSuccess)
      return explain("enabling CUPTI's sampling of counters", result);
    object_ = enable.object;
    auto set = params<SamplingSetConfigParams>();
    set.object = object_;
    set.config = config_.image().data();
    set.config_bytes = config_.image().size();
    set.buffer_bytes = kSampleBytes;
    const double interval_s = expected_s / kPlannedSamples;
    set.interval = static_cast<uint64_t>(interval_s * (has_time_intervals_ ? 1e9 : kSysclkHz));
    set.trigger = has_time_intervals_ ? kTimeInterval : kSysclkInterval;
    if (const Result result = api_.cuptiPmSamplingSetConfig(&set); result != kSuccess)
      return explain("configuring CUPTI's sampling of counters", result);
    auto size = params<SamplingGetCounterDataSizeParams>();
    size.object = object_;
    size.names = config_.names().data();
    size.count = config_.names().size();
    size.most_samples = kMostSamples;
    Result result = api_.cuptiPmSamplingGetCounterDataSize(&size);
    if (result == kSuccess) {
      data_.resize(size.bytes);
      auto image = params<SamplingImageInitializeParams>();
      image.object = object_;
      image.image = data_.data();
      image.bytes = data_.size();
      result = api_.cuptiPmSamplingCounterDataImageInitialize(&image);
    }
    return result == kSuccess ? "" : explain("preparing CUPTI's samples", result);
  }

  std::string start() override {
    auto object = params<SamplingObjectParams>();
    object.object = object_;
    const Result result = api_.cuptiPmSamplingStart(&object);
    is_running_ = result == kSuccess;
    return is_running_ ? "" : explain("starting CUPTI's sampling of counters", result);
  }

  std::string stop(Utilisation& seen) override {
    const int64_t stopped_ns = monotonic_ns();
    auto object = params<SamplingObjectParams>();
    object.object = object_;
    is_running_ = false;
    if (const Result result = api_.cuptiPmSamplingStop(&object); result != kSuccess)
      return explain("stopping CUPTI's sampling of counters", result);
    std::string why = decode(seen.samples);
    disable();
    if (!why.empty()) return why;
    // Converts from the GPU's clock: the last sample ended when sampling was stopped.
    const int64_t offset_ns = stopped_ns - seen.samples.back().end_ns;
    for (UtilisationSample& sample : seen.samples) {
      sample.begin_ns += offset_ns;
      sample.end_ns += offset_ns;
    }
    summarise(seen);
    if (*seen.sm_active > 0) return {};
    return "its counters stayed at zero while work ran";
  }

 private:
  std::string explain(const char* what, Result result) const {
    return explain_cupti(api_.cuptiGetResultString, what, result);
  }

  void disable() {
    auto object = params<SamplingObjectParams>();
    object.object = object_;
    if (is_running_) api_.cuptiPmSamplingStop(&object);
    if (object_ != nullptr) api_.cuptiPmSamplingDisable(&object);
    is_running_ = false;
    object_ = nullptr;
    data_ = {};
  }

  std::string decode(std::vector<UtilisationSample>& samples) {
    auto decode = params<SamplingDecodeParams>();
    decode.object = object_;
    decode.image = data_.data();
    decode.bytes = data_.size();
    if (const Result result = api_.cuptiPmSamplingDecodeData(&decode); result != kSuccess)
      return explain("decoding CUPTI's samples", result);
    auto info = params<SamplingGetInfoParams>();
    info.image = data_.data();
    info.bytes = data_.size();
    if (const Result result = api_.cuptiPmSamplingGetCounterDataInfo(&info); result != kSuccess)
      return explain("counting CUPTI's samples", result);
    // Skips the first sample, as CUPTI's documentation says: it began before the others.
    for (size_t index = 1; index < info.completed; ++index)
      if (std::string why = read(index, samples); !why.empty()) return why;
    std::ranges::stable_sort(samples, {}, &UtilisationSample::begin_ns);
    return samples.empty() ? "it took no sample while work ran" : "";
  }

  std::string read(size_t index, std::vector<UtilisationSample>& samples) {
    auto when = params<SamplingGetSampleParams>();
    when.object = object_;
    when.image = data_.data();
    when.bytes = data_.size();
    when.index = index;
    if (const Result result = api_.cuptiPmSamplingCounterDataGetSampleInfo(&when);
        result != kSuccess)
      return explain("reading the time of CUPTI's samples", result);
    if (when.begin == 0 || when.end <= when.begin) return {};  // an empty interval
    std::vector<double> values(config_.names().size());
    auto evaluate = params<HostEvaluateParams>();
    evaluate.host = config_.host();
    evaluate.image = data_.data();
    evaluate.bytes = data_.size();
    evaluate.index = index;
    evaluate.names = config_.names().data();
    evaluate.count = config_.names().size();
    evaluate.values = values.data();
    if (const Result result = api_.cuptiProfilerHostEvaluateToGpuValues(&evaluate);
        result != kSuccess)
      return explain("evaluating CUPTI's samples", result);
    Counts counts;
    for (size_t i = 0; i < values.size(); ++i) counts.*config_.metrics()[i].count = values[i];
    const double seconds = 1e-9 * static_cast<double>(when.end - when.begin);
    UtilisationSample sample{.begin_ns = static_cast<int64_t>(when.begin),
                             .end_ns = static_cast<int64_t>(when.end),
                             .sm_active = counts.sm_active / 100};
    if (config_.has(&Counts::tensor_active)) sample.tensor_active = counts.tensor_active / 100;
    if (config_.has(&Counts::dram_read) && config_.has(&Counts::dram_write))
      sample.dram_bytes_per_s = (counts.dram_read + counts.dram_write) / seconds;
    if (config_.has(&Counts::sm_cycles)) sample.sm_clock_hz = counts.sm_cycles / seconds;
    samples.push_back(sample);
    return {};
  }

  // Averages the samples, weighted by duration.
  static void summarise(Utilisation& seen) {
    using Field = std::optional<double> UtilisationSample::*;
    for (const Field field :
         {&UtilisationSample::sm_active, &UtilisationSample::tensor_active,
          &UtilisationSample::dram_bytes_per_s, &UtilisationSample::sm_clock_hz}) {
      if (!(seen.samples[0].*field)) continue;
      double sum = 0, ns = 0;
      for (const UtilisationSample& sample : seen.samples) {
        const auto lasted = static_cast<double>(sample.end_ns - sample.begin_ns);
        sum += lasted * *(sample.*field);
        ns += lasted;
      }
      seen.*field = sum / ns;
    }
  }

  SamplingApi api_;
  size_t device_;
  CounterConfig config_;
  SamplingObject object_ = nullptr;
  std::vector<uint8_t> data_;
  bool has_time_intervals_ = true;
  bool is_running_ = false;
};

}  // namespace

std::unique_ptr<UtilisationSource> open_pm_sampling(const CudaLibrary& cupti, int ordinal,
                                                    std::string& why_not) {
  SamplingApi api;
  why_not = load_cupti(cupti, api);
  if (!why_not.empty()) return nullptr;
  auto sampler = std::make_unique<PmSampler>(api, static_cast<size_t>(ordinal));
  why_not = sampler->open();
  if (!why_not.empty()) return nullptr;
  return sampler;
}

std::string check_sampled_counters(const CudaLibrary& cupti, const std::string& chip) {
  SamplingApi api;
  if (std::string why_not = load_cupti(cupti, api); !why_not.empty()) return why_not;
  CounterConfig config(api);
  if (std::string why_not = config.configure(chip.c_str(), nullptr); !why_not.empty())
    return why_not;
  for (const Metric& metric : kMetrics)
    if (!config.has(metric.count)) return fmt::format("{} does not know {}", chip, metric.name);
  return {};
}

}  // namespace ridgeline
