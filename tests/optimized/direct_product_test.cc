// The direct product compared with its definition, exactly, on integers.
#include "optimized/toeplitz/direct_product.h"

#include <gtest/gtest.h>

#include <vector>

namespace subquad {
namespace {

// Returns small integers in no order.
template <typename T>
std::vector<T> Whole(int64_t count, int64_t seed) {
  std::vector<T> numbers;
  for (int64_t i = 0; i < count; ++i)
    numbers.push_back(static_cast<T>((seed + i * i * 7 + i * 3) % 19 - 9));
  return numbers;
}

template <typename T>
void IsTheDefinition(int64_t n_q, int64_t n_k, int64_t e, bool causal) {
  const auto weights = Whole<T>(n_q + n_k - 1, 5);
  const auto values = Whole<T>(n_k * e, 11);
  std::vector<T> expected(static_cast<size_t>(n_q * e));
  for (int64_t i = 0; i < n_q; ++i)
    for (int64_t j = 0; j < n_k && (!causal || j <= i); ++j)
      for (int64_t c = 0; c < e; ++c)
        expected[i * e + c] += weights[j - i + n_q - 1] * values[j * e + c];
  std::vector<T> out(expected.size(), T{77});
  Layout layout({.threads = 2});
  const DirectToeplitz<T> product(layout, n_q, n_k, e);
  GuardedMemory::PoisonAllWorkspaces();
  product.Apply(weights.data(), causal ? n_q : n_q + n_k - 1, values.data(),
                n_k, out.data(), 1);
  ASSERT_EQ(GuardedMemory::CountBrokenGuards(), 0);
  ASSERT_EQ(out, expected) << n_q << " by " << n_k << ", e = " << e
                           << (causal ? ", causal" : "");
}

TEST(DirectToeplitz, IsTheDefinition) {
  for (const int64_t n_q : {1, 2, 3, 4, 5, 8, 11, 32})
    for (const int64_t n_k : {1, 2, 3, 4, 7, 12, 32})
      for (const int64_t e : {1, 7, 8, 9, 16, 17, 32, 64, 79, 145})
        for (const bool causal : {false, true}) {
          IsTheDefinition<float>(n_q, n_k, e, causal);
          IsTheDefinition<double>(n_q, n_k, e, causal);
        }
}

TEST(DirectToeplitz, AppliesToAFewRows) {
  EXPECT_TRUE(DirectToeplitz<float>::Serves(1, 32));
  EXPECT_FALSE(DirectToeplitz<float>::Serves(1, 33));
  EXPECT_FALSE(DirectToeplitz<float>::Serves(33, 1));
}

}  // namespace
}  // namespace subquad
