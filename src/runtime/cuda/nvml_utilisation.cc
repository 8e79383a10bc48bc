// Utilisation from NVML: counters (GPM, Hopper and later), or the share of time with any kernel.
// Other profilers may be attached meanwhile.
#include <fmt/format.h>

#include <array>

#include "base/clock.h"
#include "runtime/cuda/nvml_api.h"
#include "runtime/utilisation.h"

namespace ridgeline {
namespace {

using nvml::api;

constexpr double kLeastGpmS = 0.3;
constexpr double kGpmLeadInS = 0.3;          // maximum age of a sample
constexpr double kBetweenGpmSamplesS = 0.1;  // the minimum that NVML requires
// Longer than the longest sample period, so that the reading covers only this work.
constexpr double kLeastUtilisationS = 1.2;

std::string explain(const char* what, nvml::Result result) {
  const char* text = api().nvmlErrorString ? api().nvmlErrorString(result) : nullptr;
  return fmt::format("{} gave {} ({})", what, text ? text : "an error", result);
}

// Averages readings of the SM clock while work runs.
class ClockReadings {
 public:
  explicit ClockReadings(nvml::Device device) : device_(device) {}
  void clear() { sum_hz_ = count_ = 0; }
  void read() {
    unsigned mhz = 0;
    if (!api().nvmlDeviceGetClockInfo ||
        api().nvmlDeviceGetClockInfo(device_, nvml::kClockSm, &mhz) != nvml::kSuccess)
      return;
    sum_hz_ += 1e6 * mhz;
    ++count_;
  }
  std::optional<double> mean_hz() const {
    return count_ > 0 ? std::optional(sum_hz_ / count_) : std::nullopt;
  }

 private:
  nvml::Device device_;
  double sum_hz_ = 0, count_ = 0;
};

// Peak bytes per second at the current memory clock: two transfers per cycle over the whole bus.
std::optional<double> peak_dram_bytes_per_s(nvml::Device device) {
  unsigned bits = 0, mhz = 0;
  if (!api().nvmlDeviceGetMemoryBusWidth || !api().nvmlDeviceGetClockInfo ||
      api().nvmlDeviceGetMemoryBusWidth(device, &bits) != nvml::kSuccess ||
      api().nvmlDeviceGetClockInfo(device, nvml::kClockMemory, &mhz) != nvml::kSuccess)
    return std::nullopt;
  return 2e6 * mhz * bits / 8;
}

class Gpm : public UtilisationSource {
 public:
  explicit Gpm(nvml::Device device) : device_(device), clock_(device) {}
  ~Gpm() override {
    for (const nvml::GpmSample sample : samples_)
      if (sample != nullptr) api().nvmlGpmSampleFree(sample);
  }

  std::string open() {
    for (nvml::GpmSample& sample : samples_)
      if (const nvml::Result result = api().nvmlGpmSampleAlloc(&sample); result != nvml::kSuccess) {
        sample = nullptr;
        return explain("making a sample of NVML's counters", result);
      }
    return {};
  }

  double least_s() const override { return kLeastGpmS; }
  double lead_in_s() const override { return kGpmLeadInS; }

  // Uses three samples: the first, that of the last look(), and a new one.
  std::string start() override {
    clock_.clear();
    intervals_.clear();
    peak_ = peak_dram_bytes_per_s(device_);
    if (std::string why = take(kFirst, first_ns_); !why.empty()) return why;
    return take(kLast, last_ns_);
  }

  std::string look() override {
    clock_.read();
    if (1e-9 * static_cast<double>(monotonic_ns() - last_ns_) < kBetweenGpmSamplesS) return {};
    int64_t now_ns = 0;
    if (std::string why = take(kNew, now_ns); !why.empty()) return why;
    UtilisationSample interval{.begin_ns = last_ns_, .end_ns = now_ns};
    if (std::string why = between(kLast, kNew, interval); !why.empty()) return why;
    intervals_.push_back(interval);
    std::swap(samples_[kLast], samples_[kNew]);
    last_ns_ = now_ns;
    return {};
  }

  std::string stop(Utilisation& seen) override {
    int64_t now_ns = 0;
    clock_.read();
    if (std::string why = take(kNew, now_ns); !why.empty()) return why;
    seen.begin_ns = first_ns_;
    seen.end_ns = now_ns;
    if (std::string why = between(kFirst, kNew, seen); !why.empty()) return why;
    seen.sm_clock_hz = clock_.mean_hz();
    seen.samples = intervals_;
    return seen.sm_active && *seen.sm_active > 0 ? ""
                                                 : "its counters stayed at zero while work ran";
  }

 private:
  enum Place : size_t { kFirst, kLast, kNew, kPlaces };

  std::string take(Place place, int64_t& at_ns) {
    const nvml::Result result = api().nvmlGpmSampleGet(device_, samples_[place]);
    at_ns = monotonic_ns();
    return result == nvml::kSuccess ? "" : explain("reading NVML's counters", result);
  }

  std::string between(Place first, Place second, UtilisationSample& to) const {
    const auto get = std::make_unique<nvml::GpmMetricsGet>();
    get->first = samples_[first];
    get->second = samples_[second];
    for (const nvml::GpmMetricId id :
         {nvml::kGpmSmUtil, nvml::kGpmAnyTensorUtil, nvml::kGpmDramUtil})
      get->metrics[get->count++].id = id;
    if (const nvml::Result result = api().nvmlGpmMetricsGet(get.get()); result != nvml::kSuccess)
      return explain("comparing samples of NVML's counters", result);
    const auto share = [&](size_t i) -> std::optional<double> {
      if (get->metrics[i].result != nvml::kSuccess) return std::nullopt;
      return get->metrics[i].value / 100;
    };
    to.sm_active = share(0);
    to.tensor_active = share(1);
    if (const auto dram = share(2); dram && peak_) to.dram_bytes_per_s = *dram * *peak_;
    return {};
  }

  nvml::Device device_;
  ClockReadings clock_;
  std::array<nvml::GpmSample, kPlaces> samples_ = {};
  std::optional<double> peak_;
  std::vector<UtilisationSample> intervals_;
  int64_t first_ns_ = 0, last_ns_ = 0;
};

class NvmlUtilisation : public UtilisationSource {
 public:
  explicit NvmlUtilisation(nvml::Device device) : device_(device), clock_(device) {}
  double least_s() const override { return kLeastUtilisationS; }
  std::string start() override {
    clock_.clear();
    return {};
  }
  std::string look() override {
    clock_.read();
    return {};
  }
  std::string stop(Utilisation& seen) override {
    nvml::UtilizationRates rates;
    if (const nvml::Result result = api().nvmlDeviceGetUtilizationRates(device_, &rates);
        result != nvml::kSuccess)
      return explain("asking NVML for utilization.gpu", result);
    seen.any_kernel = rates.gpu / 100.0;
    seen.sm_clock_hz = clock_.mean_hz();
    return {};
  }

 private:
  nvml::Device device_;
  ClockReadings clock_;
};

constexpr const char* kNoNvml = "NVML does not know this GPU";

}  // namespace

std::unique_ptr<UtilisationSource> open_nvml_gpm(int ordinal, std::string& why_not) {
  const std::optional<nvml::Device> device = nvml::device_of(ordinal);
  if (!device) return why_not = kNoNvml, nullptr;
  const nvml::Api& nvml = api();
  if (!nvml.nvmlGpmQueryDeviceSupport || !nvml.nvmlGpmSampleAlloc || !nvml.nvmlGpmSampleFree ||
      !nvml.nvmlGpmSampleGet || !nvml.nvmlGpmMetricsGet)
    return why_not = "this NVML is too old for counters", nullptr;
  nvml::GpmSupport support;
  if (const nvml::Result result = nvml.nvmlGpmQueryDeviceSupport(*device, &support);
      result != nvml::kSuccess)
    return why_not = explain("asking NVML for counters", result), nullptr;
  if (support.is_supported == 0)
    return why_not = "this GPU has no counters that NVML reads (Hopper and later have)", nullptr;
  auto gpm = std::make_unique<Gpm>(*device);
  why_not = gpm->open();
  if (!why_not.empty()) return nullptr;
  return gpm;
}

std::unique_ptr<UtilisationSource> open_nvml_utilisation(int ordinal, std::string& why_not) {
  const std::optional<nvml::Device> device = nvml::device_of(ordinal);
  if (!device || !api().nvmlDeviceGetUtilizationRates) return why_not = kNoNvml, nullptr;
  return std::make_unique<NvmlUtilisation>(*device);
}

}  // namespace ridgeline
