// Uses of fmt that need its compiled part; see fmt.cmake.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

int main(int argc, char** argv) {
  const std::vector<double> numbers = {1.5, static_cast<double>(argc)};
  fmt::print("{} {:>8.3f} {:e} {:L} {}\n", argv[0], numbers[0], 2.5f, argc, fmt::join(numbers, ", "));
  fmt::print(stderr, "{:#x} {:p} {:?<5}\n", argc, static_cast<void*>(argv), true);
  return fmt::format("{:{}}", 1.25L, argc).empty() ? 1 : 0;
}
