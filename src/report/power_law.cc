#include "report/power_law.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>
#include <vector>

namespace ridgeline {

std::optional<PowerLaw> fit_power_law(std::span<const Observation> observations) {
  const auto usable = [](double value) { return value > 0 && std::isfinite(value); };
  std::map<int, std::vector<std::pair<double, double>>> groups;
  for (const Observation& o : observations)
    if (usable(o.x) && usable(o.y)) groups[o.group].emplace_back(std::log(o.x), std::log(o.y));

  double covariance = 0, variance = 0, lowest = 0, highest = 0;
  int count = 0;
  for (const auto& [group, points] : groups) {
    std::set<double> different_x;
    double mean_x = 0, mean_y = 0;
    for (const auto& [x, y] : points) {
      different_x.insert(x);
      mean_x += x / static_cast<double>(points.size());
      mean_y += y / static_cast<double>(points.size());
    }
    if (different_x.size() < 3) continue;
    for (const auto& [x, y] : points) {
      covariance += (x - mean_x) * (y - mean_y);
      variance += (x - mean_x) * (x - mean_x);
    }
    lowest = count ? std::min(lowest, *different_x.begin()) : *different_x.begin();
    highest = count ? std::max(highest, *different_x.rbegin()) : *different_x.rbegin();
    count += static_cast<int>(points.size());
  }
  if (count == 0) return std::nullopt;
  return PowerLaw{covariance / variance, std::exp(lowest), std::exp(highest), count};
}

}  // namespace ridgeline
