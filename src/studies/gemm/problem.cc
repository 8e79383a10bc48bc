#include "studies/gemm/problem.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numeric>

#include "base/float16.h"
#include "base/larger.h"
#include "base/random.h"
#include "kernels/host_values.h"
#include "studies/host_tensors.h"

namespace ridgeline {
namespace {

constexpr int64_t kWholeMacs = int64_t{1} << 28;  // above, the oracle takes longer than a row
constexpr int64_t kComparedRows = 24;

}  // namespace

GemmProblem::GemmProblem(const GemmWorkload& workload, Device& device, uint64_t seed)
    : workload_(workload), device_(device) {
  const auto& [m, n, k] = workload.shape;
  const auto make = [&](Shape shape, const char* name, Allocation& memory) {
    memory = device.ledger().allocate(byte_size({workload.dtype, shape}), name);
    return TensorView{memory.data(), workload.dtype, shape, contiguous_strides(shape)};
  };
  a_ = make({m, k}, "a", a_memory_);
  b_ = make({k, n}, "b", b_memory_);
  out_ = make({m, n}, "out", out_memory_);
  start_ = device.prepare_gemm(kGemmImplementations.find(workload.implementation).rung,
                               {.a = a_, .b = b_, .out = out_});
  fill_randomly(device, a_, seed, "a");
  fill_randomly(device, b_, seed, "b");
}

void GemmProblem::run_poisoned() {
  device_.poison(out_);
  start();
  device_.synchronize();
}

Verification GemmProblem::verify(uint64_t seed) const {
  const auto& [m, n, k] = workload_.shape;
  const DType dtype = workload_.dtype;
  const bool whole = gemm_cost(workload_.shape, dtype).macs <= kWholeMacs;
  std::vector<int64_t> rows(static_cast<size_t>(whole ? m : std::min(m, kComparedRows)));
  std::iota(rows.begin(), rows.end(), int64_t{0});
  if (!whole) {
    NormalRandom random(seed, "verified rows");
    for (size_t i = 1; i + 1 < rows.size(); ++i)
      rows[i] = static_cast<int64_t>(random.next_bits() % static_cast<uint64_t>(m));
    rows.back() = m - 1;
  }
  const auto as_operand = [dtype](double value) {
    const auto single = static_cast<float>(value);
    return dtype == DType::tf32 ? float_to_tf32(single) : single;
  };
  const std::vector<double> b = read_values(device_, b_);
  std::vector<float> plain_b;
  std::transform(b.begin(), b.end(), std::back_inserter(plain_b), as_operand);
  struct Extremes {
    double error = 0, plain_error = 0, largest = 0;
  };
  std::vector<Extremes> extremes(rows.size());
  std::vector<std::vector<double>> a_rows, out_rows;
  for (int64_t row : rows) {
    a_rows.push_back(read_values(device_, sub_tensor(a_, row)));
    out_rows.push_back(read_values(device_, sub_tensor(out_, row)));
  }
  HostThreads threads(device_);
  // Clang 14 cannot capture structured bindings, hence n = n.
  threads.runner()(
      static_cast<int64_t>(rows.size()), [&, n = n, k = k](int64_t begin, int64_t end) {
        std::vector<double> exact(static_cast<size_t>(n));
        std::vector<float> plain(static_cast<size_t>(n));
        for (int64_t r = begin; r < end; ++r) {
          const auto at = static_cast<size_t>(r);
          std::fill(exact.begin(), exact.end(), 0.0);
          std::fill(plain.begin(), plain.end(), 0.0f);
          for (int64_t step = 0; step < k; ++step) {
            const double left = a_rows[at][static_cast<size_t>(step)];
            const float plain_left = as_operand(left);
            const double* right = &b[static_cast<size_t>(step * n)];
            const float* plain_right = &plain_b[static_cast<size_t>(step * n)];
            for (size_t j = 0; j < exact.size(); ++j) {
              exact[j] += left * right[j];
              plain[j] += plain_left * plain_right[j];
            }
          }
          Extremes& extreme = extremes[at];
          for (size_t j = 0; j < exact.size(); ++j) {
            extreme.error = larger(extreme.error, std::abs(out_rows[at][j] - exact[j]));
            extreme.plain_error =
                std::max(extreme.plain_error, std::abs(rounded_to(dtype, plain[j]) - exact[j]));
            extreme.largest = std::max(extreme.largest, std::abs(exact[j]));
          }
        }
      });
  Extremes all;
  for (const Extremes& each : extremes) {
    all.error = larger(all.error, each.error);
    all.plain_error = std::max(all.plain_error, each.plain_error);
    all.largest = std::max(all.largest, each.largest);
  }
  // The rule of docs/measuring.md: twice the error of a plain loop in the same dtype, plus a floor.
  const double floor = (is_16_bit(dtype) ? 1 : 4) * info(dtype).epsilon * all.largest + 1e-12;
  return {.checked = true,
          .what = whole ? "whole tensors" : fmt::format("{} rows", rows.size()),
          .oracle = "fp64",
          .tensors = {{"out", all.error, 2 * all.plain_error + floor}}};
}

}  // namespace ridgeline
