// Reproducible normal random numbers: the same seed and name give the same values on every machine.
#pragma once

#include <cmath>
#include <cstdint>
#include <string_view>

namespace ridgeline {

class NormalRandom {
 public:
  NormalRandom(uint64_t seed, std::string_view name) : state_(seed) {
    for (char c : name) state_ = mix(state_ ^ static_cast<unsigned char>(c));
  }

  double next() {
    if (has_spare_) {
      has_spare_ = false;
      return spare_;
    }
    // Marsaglia's polar method: two values per accepted point of the unit disc.
    double x = 0, y = 0, square = 0;
    do {
      x = 2 * uniform() - 1;
      y = 2 * uniform() - 1;
      square = x * x + y * y;
    } while (square >= 1 || square == 0);
    const double factor = std::sqrt(-2 * std::log(square) / square);
    spare_ = y * factor;
    has_spare_ = true;
    return x * factor;
  }

  double uniform() { return static_cast<double>(next_bits() >> 11) * 0x1p-53; }

  uint64_t next_bits() { return mix(state_ += 0x9e3779b97f4a7c15u); }

 private:
  static uint64_t mix(uint64_t z) {  // splitmix64's finaliser
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
  }

  uint64_t state_;
  double spare_ = 0;
  bool has_spare_ = false;
};

}  // namespace ridgeline
