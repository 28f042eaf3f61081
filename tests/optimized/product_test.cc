// Products in every layout, compared with a plain loop.
#include "optimized/base/product.h"

#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <vector>

namespace subquad {
namespace {

template <typename T>
using Numbers = std::vector<T>;

template <typename T>
class ProductTest : public testing::Test {
 protected:
  Numbers<T> Random(int64_t count) {
    std::normal_distribution<T> normal;
    Numbers<T> x(static_cast<size_t>(count));
    for (T& value : x) value = normal(random_);
    return x;
  }

 private:
  std::mt19937 random_{7};
};
using Scalars = testing::Types<float, double>;
TYPED_TEST_SUITE(ProductTest, Scalars);

// Stores a row-major matrix with `spare` elements after each row, or its
// transpose.
template <typename T>
struct Stored {
  Numbers<T> numbers;
  int64_t rows, columns, spare;
  bool turned;
  int64_t stride() const { return (turned ? rows : columns) + spare; }
  T At(int64_t i, int64_t j) const {
    return numbers[static_cast<size_t>(turned ? j * stride() + i
                                              : i * stride() + j)];
  }
  ConstMatrixMap<T> Map() const {
    return ConstMatrixMap<T>(numbers.data(), turned ? columns : rows,
                             turned ? rows : columns,
                             Eigen::OuterStride<>(stride()));
  }
};

template <typename T, typename Use>
void With(const Stored<T>& a, const Use& use) {
  a.turned ? use(a.Map().transpose()) : use(a.Map());
}

TYPED_TEST(ProductTest, EveryLayout) {
  using T = TypeParam;
  struct Sizes {
    int64_t rows, terms, columns;
  };
  for (const auto& [rows, terms, columns] :
       {Sizes{1, 1, 1}, Sizes{1, 40, 17}, Sizes{33, 9, 1}, Sizes{70, 67, 65},
        Sizes{5, 300, 3}, Sizes{3, 0, 4}})
    for (const int layout : {0, 1, 2, 3})
      for (const bool add : {false, true}) {
        const auto stored = [&](int64_t n, int64_t m, bool turned) {
          Stored<T> matrix{{}, n, m, 3, turned};
          matrix.numbers = this->Random((turned ? m : n) * matrix.stride());
          return matrix;
        };
        const Stored<T> a = stored(rows, terms, layout & 1),
                        b = stored(terms, columns, layout & 2);
        Stored<T> out = stored(rows, columns, false);
        const Stored<T> before = out;
        const T scale = add ? T{1} : T{-0.5};
        With(a, [&](const auto& x) {
          With(b, [&](const auto& y) {
            MatrixMap<T> result(out.numbers.data(), rows, columns,
                                Eigen::OuterStride<>(out.stride()));
            add ? AddProduct(x, y, result) : Multiply(scale, x, y, result);
          });
        });
        const double unit = std::numeric_limits<T>::epsilon();
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            double sum = 0, sizes = 0;
            for (int64_t x = 0; x < terms; ++x) {
              const double term = double{a.At(i, x)} * double{b.At(x, j)};
              sum += term;
              sizes += std::abs(term);
            }
            const double start = add ? double{before.At(i, j)} : 0;
            const double bound = static_cast<double>(terms + 2) * unit *
                                 (sizes + std::abs(start));
            EXPECT_NEAR(start + scale * sum, out.At(i, j), bound)
                << rows << " " << terms << " " << columns << " " << layout;
          }
          for (int64_t j = columns; j < out.stride(); ++j) {
            const auto at = static_cast<size_t>(i * out.stride() + j);
            EXPECT_EQ(before.numbers[at], out.numbers[at]) << "behind a row";
          }
        }
      }
}

}  // namespace
}  // namespace subquad
