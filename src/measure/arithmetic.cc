#include "measure/arithmetic.h"

#include <fmt/format.h>

#include <algorithm>

#include "measure/record_values.h"

namespace ridgeline {
namespace {

constexpr int64_t kMostProducts = 64;  // guards against malformed files
constexpr size_t kMostParts = 16;

std::string asked_for(const Record& record) {
  const std::string precision = text_of(record.workload, "precision");
  if (precision == "mixed") return "bf16";
  if (precision == "mixed-fp16") return "fp16";
  return precision.empty() ? text_of(record.workload, "dtype") : precision;
}

// Adds the parts of one pass, with multiply-adds as shares. Returns false if they are malformed.
bool add_parts(const Json& pass, std::vector<ProductPart>& parts) {
  if (!pass.is_array() || pass.size() > kMostParts) return false;
  for (const Json& each : pass) {
    const Json* products = each.find_key("products");
    const Json* macs = each.find_key("macs");
    const std::string dtype = text_of(each, "dtype");
    if (!products || !products->is_number_integer() || !macs || !macs->is_number_integer())
      return false;
    const int64_t count = each.value("products", int64_t{0});
    const auto weight = macs->get<double>();
    if (dtype.empty() || count < 1 || count > kMostProducts || !(weight > 0)) return false;
    const auto known = std::find_if(parts.begin(), parts.end(), [&](const ProductPart& part) {
      return part.dtype == dtype && part.products == count;
    });
    if (known == parts.end())
      parts.push_back({dtype, static_cast<int>(count), weight});
    else
      known->share += weight;
  }
  return true;
}

std::string how(const ProductPart& part) {
  return part.products == 1 ? fmt::format("{} products", part.dtype)
                            : fmt::format("{} {} products", part.products, part.dtype);
}

}  // namespace

std::string Arithmetic::name() const {
  const auto is_own = [&](const ProductPart& part) {
    return part.dtype == dtype && part.products == 1;
  };
  const auto other = std::find_if_not(parts.begin(), parts.end(), is_own);
  if (other == parts.end()) return dtype;
  return fmt::format("{}{} by {}", dtype, parts.size() > 1 ? ", in part" : "", how(*other));
}

std::optional<double> Arithmetic::ceiling(const RateOf& rate_of) const {
  double seconds = 0;  // of one FLOP
  for (const ProductPart& part : parts) {
    const std::optional<double> rate = rate_of(part.dtype);
    if (!rate || !(*rate > 0)) return std::nullopt;
    seconds += part.share * part.products / *rate;
  }
  return seconds > 0 ? std::optional(1 / seconds) : std::nullopt;
}

Arithmetic arithmetic_of(const Record& record, std::string_view series) {
  Arithmetic arithmetic{.dtype = asked_for(record), .parts = {}};
  const Json metrics = record.metrics.value_or(Json::object());
  const Json* said = metrics.find_key("arithmetic");
  const bool both = series == "fwd_bwd" || series == "full_step";
  bool readable = said != nullptr;
  for (const char* pass : {"forward", "backward"}) {
    const bool counts = both || (series == "backward") == (pass == std::string_view("backward"));
    const Json* of = readable && counts ? said->find_key(pass) : nullptr;
    if (counts) readable = of != nullptr && add_parts(*of, arithmetic.parts);
  }
  double macs = 0;
  for (const ProductPart& part : arithmetic.parts) macs += part.share;
  for (ProductPart& part : arithmetic.parts) part.share /= macs;
  arithmetic.recorded = readable && !arithmetic.parts.empty();
  if (!arithmetic.recorded) arithmetic.parts = {{arithmetic.dtype, 1, 1}};
  return arithmetic;
}

bool is_ambiguous(const Record& record, const Arithmetic& arithmetic) {
  return !arithmetic.recorded && record.device == "cuda" && record.study != "gemm" &&
         (arithmetic.dtype == "fp32" || arithmetic.dtype == "tf32");
}

}  // namespace ridgeline
