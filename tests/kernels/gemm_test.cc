// Our matrix products against sums in fp64: random sizes, steps, dtypes, instruction sets, threads.
#include "kernels/cpu/gemm.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/float16.h"
#include "kernels/cpu/gemm_few_rows.h"
#include "kernels/cpu/gemm_on_tiles.h"
#include "kernels/host_values.h"
#include "measure/test_support.h"

namespace ridgeline::gemm_test {
namespace {

// How the elements of an operand lie in memory.
enum class Layout { rows, columns, scattered, same_row };

class Problem {
 public:
  struct Sizes {
    int64_t m, n, k;
  };

  Problem(Sizes sizes, Layout a, Layout b, DType dtype, uint64_t seed)
      : sizes_(sizes), dtype_(dtype), random_(seed) {
    a_ = make(a, sizes.m, sizes.k, a_stored_);
    b_ = make(b, sizes.k, sizes.n, b_stored_);
    out_step_ = sizes.n + static_cast<int64_t>(random_() % 5);
    out_.resize(static_cast<size_t>(sizes.m * out_step_ * info(dtype).size));
  }

  // The result, in which what a product leaves alone stays NaN.
  const std::vector<char>& run(const std::function<void(const Gemm&)>& multiply) {
    std::fill(out_.begin(), out_.end(), '\xff');
    multiply({.m = sizes_.m,
              .n = sizes_.n,
              .k = sizes_.k,
              .a = a_,
              .b = b_,
              .c = {.data = out_.data(), .dtype = dtype_, .row_step = out_step_}});
    return out_;
  }

  // All elements if they are few, else a sample with the corners.
  void expect_right(const std::string& what) {
    for (int64_t row = 0; row < sizes_.m; ++row)
      for (int64_t column = 0; column < out_step_; ++column)
        ASSERT_EQ(std::isnan(load_one(dtype_, out_.data(), row * out_step_ + column)),
                  column >= sizes_.n)
            << what << " at " << row << ", " << column;
    if (sizes_.m * sizes_.n * sizes_.k < (1 << 22)) {
      for (int64_t row = 0; row < sizes_.m; ++row)
        for (int64_t column = 0; column < sizes_.n; ++column) expect_right_at(row, column, what);
      return;
    }
    for (int64_t row : {int64_t{0}, sizes_.m - 1})
      for (int64_t column : {int64_t{0}, sizes_.n - 1}) expect_right_at(row, column, what);
    for (int i = 0; i < 2000; ++i) expect_right_at(below(sizes_.m), below(sizes_.n), what);
  }

 private:
  int64_t below(int64_t end) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(end));
  }

  GemmOperand make(Layout layout, int64_t rows, int64_t columns, std::vector<char>& stored) {
    const int64_t padding = below(4);
    int64_t row_step = columns + padding, column_step = 1;
    if (layout == Layout::columns) row_step = 1, column_step = rows + padding;
    if (layout == Layout::scattered) row_step = 2 * columns + padding, column_step = 2;
    if (layout == Layout::same_row) row_step = 0;
    const int64_t count = std::max<int64_t>(0, rows - 1) * row_step +
                          std::max<int64_t>(0, columns - 1) * column_step + 1;
    const int64_t offset = below(3);  // as of a tensor inside of another
    stored.resize(static_cast<size_t>((offset + count) * info(dtype_).size));
    std::normal_distribution<float> normal;
    for (int64_t i = 0; i < offset + count; ++i)
      store_one(dtype_, normal(random_), stored.data(), i);
    return {.data = stored.data() + offset * info(dtype_).size,
            .dtype = dtype_,
            .row_step = row_step,
            .column_step = column_step};
  }

  void expect_right_at(int64_t row, int64_t column, const std::string& what) const {
    double exact = 0, magnitude = 0;
    for (int64_t i = 0; i < sizes_.k; ++i) {
      const double product =
          double{load_one(dtype_, a_.data, row * a_.row_step + i * a_.column_step)} *
          double{load_one(dtype_, b_.data, i * b_.row_step + column * b_.column_step)};
      exact += product;
      magnitude += std::abs(product);
    }
    // The bound of any order of k roundings in fp32, and one of the result, which may be subnormal.
    const double least_step = dtype_ == DType::f16 ? 0x1p-24 : 1e-30;
    const double bound = magnitude * static_cast<double>(sizes_.k) * 0x1p-24 +
                         std::abs(exact) * info(dtype_).epsilon + least_step / 2;
    ASSERT_LE(std::abs(load_one(dtype_, out_.data(), row * out_step_ + column) - exact), bound)
        << what << " at " << row << ", " << column;
  }

  Sizes sizes_;
  DType dtype_;
  std::mt19937_64 random_;
  std::vector<char> a_stored_, b_stored_, out_;
  GemmOperand a_, b_;
  int64_t out_step_;
};

std::string describe(Problem::Sizes sizes, Layout a, Layout b, DType dtype, Isa isa) {
  return std::to_string(sizes.m) + " x " + std::to_string(sizes.n) + " x " +
         std::to_string(sizes.k) + ", layouts " + std::to_string(static_cast<int>(a)) + " and " +
         std::to_string(static_cast<int>(b)) + ", " + std::string(info(dtype).name) + ", " +
         std::string(name(isa));
}

struct Layouts {
  Layout a, b;
};

// On every instruction set, and with the same bits for any threads.
void expect_right_everywhere(Problem::Sizes sizes, Layouts layouts, DType dtype, uint64_t seed) {
  static ThreadPool two(2), many(7);
  for (Isa isa : supported_isas()) {
    const std::string what = describe(sizes, layouts.a, layouts.b, dtype, isa);
    Problem problem(sizes, layouts.a, layouts.b, dtype, seed);
    const std::vector<char> alone =
        problem.run([&](const Gemm& product) { gemm_alone(product, isa); });
    problem.expect_right(what);
    if (::testing::Test::HasFatalFailure()) return;
    for (ThreadPool* pool : {&two, &many})
      ASSERT_TRUE(alone == problem.run([&](const Gemm& product) {
        gemm(product, {.pool = *pool, .isa = isa});
      })) << what
          << " by " << pool->threads() << " threads";
  }
}

TEST(Gemm, RandomProductsAreRightAndTheirBitsTheSameForAnyThreads) {
  std::mt19937_64 random(5);
  const auto up_to = [&](int64_t most) {
    return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  const auto layout = [&] { return static_cast<Layout>(random() % 4); };
  for (uint64_t seed = 0; seed < 150; ++seed) {
    // Small ones, and long ones along each of the three.
    Problem::Sizes sizes{up_to(70), up_to(140), up_to(90)};
    if (seed % 5 == 1) sizes.m = up_to(900);
    if (seed % 5 == 2) sizes.n = up_to(900);
    if (seed % 5 == 3) sizes.k = up_to(2500);
    // Large enough that threads share them.
    if (seed % 5 == 4) sizes = {200 + up_to(300), 200 + up_to(300), 420 + up_to(300)};
    const Layout a = layout(), b = layout();
    const DType dtype = seed % 3 == 0 ? DType::bf16 : seed % 10 == 1 ? DType::f16 : DType::f32;
    expect_right_everywhere(sizes, {a, b}, dtype, seed);
    if (HasFatalFailure()) return;
  }
}

TEST(Gemm, FewRowsAreRightAndTheirBitsTheSameForAnyThreads) {
  std::mt19937_64 random(7);
  const auto up_to = [&](int64_t most) {
    return 1 + static_cast<int64_t>(random() % static_cast<uint64_t>(most));
  };
  for (uint64_t seed = 0; seed < 120; ++seed) {
    Problem::Sizes sizes{up_to(8), up_to(150), up_to(90)};
    if (seed % 4 == 1) sizes = {up_to(15), up_to(7), up_to(2500)};
    if (seed % 4 == 2) sizes = {up_to(4), 200 + up_to(300), 100 + up_to(400)};  // to be shared
    if (seed % 4 == 3) sizes.k = up_to(20);
    const DType dtype = std::array{DType::bf16, DType::f16, DType::f32}[seed % 3];
    expect_right_everywhere(sizes, {static_cast<Layout>(random() % 4), Layout::columns}, dtype,
                            seed);
    if (HasFatalFailure()) return;
  }
}

// So that a text is continued alike whatever is decoded beside it.
TEST(Gemm, ARowAmongFewHasTheBitsThatItHasAlone) {
  constexpr int64_t kRows = 11, kColumns = 30, kDepth = 150;
  for (DType dtype : {DType::bf16, DType::f32})
    for (Isa isa : supported_isas()) {
      Problem problem({kRows, kColumns, kDepth}, Layout::rows, Layout::columns, dtype, 3);
      const auto whole = problem.run([&](const Gemm& product) { gemm_alone(product, isa); });
      const auto one_by_one = problem.run([&](Gemm product) {
        ASSERT_TRUE(has_few_rows(product));
        const int64_t size = info(dtype).size;
        const auto* x = static_cast<const char*>(product.a.data);
        auto* out = static_cast<char*>(product.c.data);
        product.m = 1;
        for (int64_t row = 0; row < kRows; ++row) {
          product.a.data = x + row * product.a.row_step * size;
          product.c.data = out + row * product.c.row_step * size;
          gemm_alone(product, isa);
        }
      });
      EXPECT_TRUE(whole == one_by_one) << info(dtype).name << ", " << name(isa);
    }
}

TEST(Gemm, FewRowsReadNothingBesideTheirColumns) {
  constexpr int64_t kColumns = 9, kDepth = 19, kStep = 21;
  std::vector<float> x(kDepth, 1.0f), weights(kColumns * kStep, NAN), out(kColumns);
  for (int64_t column = 0; column < kColumns; ++column)
    for (int64_t i = 0; i < kDepth && column != 4; ++i)
      weights[static_cast<size_t>(column * kStep + i)] = static_cast<float>(column);
  for (Isa isa : supported_isas()) {
    gemm_alone({.m = 1,
                .n = kColumns,
                .k = kDepth,
                .a = {.data = x.data(), .row_step = kDepth},
                .b = {.data = weights.data(), .row_step = 1, .column_step = kStep},
                .c = {.data = out.data(), .row_step = kColumns}},
               isa);
    for (int64_t column = 0; column < kColumns; ++column) {
      if (column == 4)
        EXPECT_TRUE(std::isnan(out[4]));
      else
        EXPECT_EQ(out[static_cast<size_t>(column)], static_cast<float>(column * kDepth));
    }
  }
}

TEST(Gemm, ProductsLargerThanEveryBlock) {
  ThreadPool pool(3);
  const Isa isa = default_isa();
  const auto expect_right = [&](Problem::Sizes sizes, Layout a, Layout b, DType dtype) {
    Problem problem(sizes, a, b, dtype, 11);
    const std::vector<char> shared =
        problem.run([&](const Gemm& product) { gemm(product, {.pool = pool, .isa = isa}); });
    problem.expect_right(describe(sizes, a, b, dtype, isa));
    EXPECT_TRUE(shared == problem.run([&](const Gemm& product) { gemm_alone(product, isa); }));
  };
  expect_right({3650, 3700, 2040}, Layout::rows, Layout::columns, DType::f32);
  expect_right({4200, 4130, 1020}, Layout::columns, Layout::rows, DType::f32);
  expect_right({33, 50, 100000}, Layout::rows, Layout::rows, DType::f32);
  expect_right({1900, 1700, 1040}, Layout::rows, Layout::columns, DType::bf16);
  expect_right({100, 70, 100000}, Layout::columns, Layout::rows, DType::bf16);
}

TEST(Gemm, NothingToSumIsZero) {
  for (Isa isa : supported_isas())
    for (DType dtype : {DType::f32, DType::bf16}) {
      Problem problem({20, 40, 0}, Layout::rows, Layout::rows, dtype, 1);
      problem.run([&](const Gemm& product) { gemm_alone(product, isa); });
      problem.expect_right("k = 0");
    }
}

TEST(Gemm, NumbersThatAreNotFiniteOrHugeGiveWhatFp32Gives) {
  // Rows and columns past the edge of a tile are computed with, too, and must not leak.
  for (int64_t size : {17, 150}) {
    std::vector<float> a(static_cast<size_t>(size * size), 1.0f), b = a, c = a;
    const auto at = [&](std::vector<float>& x, int64_t row, int64_t column) -> float& {
      return x[static_cast<size_t>(row * size + column)];
    };
    for (int64_t i = 0; i < size; ++i) at(a, 7, i) = i == 2 ? std::numeric_limits<float>::max() : 0;
    at(a, 3, 5) = INFINITY;
    at(b, 4, size - 1) = NAN;
    for (Isa isa : supported_isas()) {
      gemm_alone({.m = size,
                  .n = size,
                  .k = size,
                  .a = {.data = a.data(), .row_step = size},
                  .b = {.data = b.data(), .row_step = size},
                  .c = {.data = c.data(), .row_step = size}},
                 isa);
      for (int64_t row = 0; row < size; ++row)
        for (int64_t column = 0; column < size; ++column) {
          const float value = at(c, row, column);
          if (column == size - 1)
            ASSERT_TRUE(std::isnan(value));
          else
            ASSERT_EQ(value, row == 3   ? INFINITY
                             : row == 7 ? std::numeric_limits<float>::max()
                                        : static_cast<float>(size));
        }
    }
  }
}

TEST(Gemm, ErrorsAreNoLargerThanThoseOfAPlainLoopInFp32) {
  constexpr int64_t kRows = 60, kColumns = 70, kDepth = 1100;
  for (int spread : {0, 3, 20}) {
    std::mt19937_64 random(static_cast<uint64_t>(spread) + 1);
    std::normal_distribution<float> normal;
    std::uniform_int_distribution<int> exponent(-spread, spread);
    const auto draw = [&](int64_t count) {
      std::vector<float> values(static_cast<size_t>(count));
      for (float& value : values) value = std::ldexp(normal(random), exponent(random));
      return values;
    };
    const std::vector<float> a = draw(kRows * kDepth), b = draw(kDepth * kColumns);
    std::vector<float> c(kRows * kColumns);
    for (Isa isa : supported_isas()) {
      gemm_alone({.m = kRows,
                  .n = kColumns,
                  .k = kDepth,
                  .a = {.data = a.data(), .row_step = kDepth},
                  .b = {.data = b.data(), .row_step = kColumns},
                  .c = {.data = c.data(), .row_step = kColumns}},
                 isa);
      double squares = 0, plain_squares = 0;
      for (int64_t row = 0; row < kRows; ++row)
        for (int64_t column = 0; column < kColumns; ++column) {
          double exact = 0, magnitude = 0;
          float plain = 0;
          for (int64_t i = 0; i < kDepth; ++i) {
            const float x = a[static_cast<size_t>(row * kDepth + i)];
            const float y = b[static_cast<size_t>(i * kColumns + column)];
            exact += double{x} * double{y};
            magnitude += std::abs(double{x} * double{y});
            plain += x * y;
          }
          const double error = c[static_cast<size_t>(row * kColumns + column)] - exact;
          squares += error * error / (magnitude * magnitude);
          plain_squares += (plain - exact) * (plain - exact) / (magnitude * magnitude);
        }
      EXPECT_LE(std::sqrt(squares), std::sqrt(plain_squares))
          << name(isa) << ", exponents spread by " << spread;
    }
  }
}

// Instruction sets that multiply bf16 themselves.
std::vector<Isa> isas_of_bf16() {
  std::vector<Isa> isas;
  for (const Isa isa : supported_isas())
    if (isa >= Isa::avx512_bf16) isas.push_back(isa);
  return isas;
}

// Edges of panels (32), of stretches of the depth (2048) and of blocks (128), in all layouts; rows
// of whole panels and whole steps are read in place.
TEST(Gemm, TilesOfBf16GiveSumsInFp32AtEveryEdge) {
  if (isas_of_bf16().empty()) GTEST_SKIP() << "this machine multiplies no bf16";
  std::mt19937_64 random(17);
  for (auto [m, n, k] : {std::array{31, 33, 1},
                         {32, 64, 32},
                         {257, 40, 1025},
                         {16, 300, 2081},
                         {160, 70, 2112},
                         {64, 33, 2060}})
    for (int layouts = 0; layouts < 4; ++layouts) {
      const auto draw = [&](int64_t count) {
        std::vector<uint16_t> values(static_cast<size_t>(count));
        // Small integers: every sum is exact in fp32, whatever its order.
        for (uint16_t& value : values)
          value = float_to_bf16(static_cast<float>(static_cast<int>(random() % 17) - 8));
        return values;
      };
      const int64_t a_step = k + 7;  // rows with a gap between them
      const std::vector<uint16_t> a = draw(m * a_step), b = draw(int64_t{k} * n);
      const bool a_by_columns = layouts % 2 != 0, b_by_columns = layouts / 2 != 0;
      const Gemm product = {.m = m,
                            .n = n,
                            .k = k,
                            .a = {.data = a.data(),
                                  .dtype = DType::bf16,
                                  .row_step = a_by_columns ? 1 : a_step,
                                  .column_step = a_by_columns ? m : 1},
                            .b = {.data = b.data(),
                                  .dtype = DType::bf16,
                                  .row_step = b_by_columns ? 1 : n,
                                  .column_step = b_by_columns ? k : 1},
                            .c = {}};
      std::vector<std::vector<float>> results;
      for (const Isa isa : isas_of_bf16()) {
        std::vector<float>& c =
            results.emplace_back(static_cast<size_t>(int64_t{m} * n), static_cast<float>(NAN));
        Gemm wide = product;
        wide.c = {.data = c.data(), .dtype = DType::f32, .row_step = n};
        ASSERT_TRUE(fits_tiles(wide, isa));
        EXPECT_FALSE(fits_tiles(wide, Isa::avx512));
        gemm_alone(wide, isa);
      }
      for (int64_t row = 0; row < m; ++row)
        for (int64_t column = 0; column < n; ++column) {
          double exact = 0;
          for (int64_t i = 0; i < k; ++i)
            exact += double{load_one(DType::bf16, a.data(),
                                     row * product.a.row_step + i * product.a.column_step)} *
                     double{load_one(DType::bf16, b.data(),
                                     i * product.b.row_step + column * product.b.column_step)};
          for (const std::vector<float>& c : results)
            ASSERT_EQ(c[static_cast<size_t>(row * n + column)], exact)
                << m << " x " << n << " x " << k << " at " << row << ", " << column;
        }
    }
}

// Lines past the edge of a tile are multiplied, too, and must not leak.
TEST(Gemm, TilesOfBf16KeepNumbersThatAreNotFiniteInTheirRowsAndColumns) {
  if (isas_of_bf16().empty()) GTEST_SKIP() << "this machine multiplies no bf16";
  constexpr int64_t kSize = 45;
  const uint16_t one = float_to_bf16(1);
  std::vector<uint16_t> a(kSize * kSize, one), b = a;
  std::vector<float> c(kSize * kSize, -1);
  a[3 * kSize + 5] = float_to_bf16(INFINITY);
  b[4 * kSize + kSize - 1] = float_to_bf16(NAN);
  const Gemm product = {.m = kSize,
                        .n = kSize,
                        .k = kSize,
                        .a = {.data = a.data(), .dtype = DType::bf16, .row_step = kSize},
                        .b = {.data = b.data(), .dtype = DType::bf16, .row_step = kSize},
                        .c = {.data = c.data(), .dtype = DType::f32, .row_step = kSize}};
  for (const Isa isa : isas_of_bf16()) {
    ASSERT_TRUE(fits_tiles(product, isa));
    gemm_alone(product, isa);
    for (int64_t row = 0; row < kSize; ++row)
      for (int64_t column = 0; column < kSize; ++column) {
        const float value = c[static_cast<size_t>(row * kSize + column)];
        if (column == kSize - 1)
          ASSERT_TRUE(std::isnan(value)) << row;
        else
          ASSERT_EQ(value, row == 3 ? INFINITY : float{kSize}) << row << ", " << column;
      }
  }
}

TEST(Gemm, ACpuHasNoTf32) {
  Problem problem({4, 4, 4}, Layout::rows, Layout::rows, DType::tf32, 1);
  EXPECT_ERROR(problem.run([](const Gemm& product) { gemm_alone(product, default_isa()); }),
               ErrorKind::unsupported, "tf32");
}

}  // namespace
}  // namespace ridgeline::gemm_test
