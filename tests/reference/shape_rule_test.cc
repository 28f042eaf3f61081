#include "reference/base/shape_rule.h"

#include <gtest/gtest.h>

namespace subquad {
namespace {

TEST(Extent, SumsProductsAndQuotients) {
  const Dims dims = {{"n", 12}, {"block", 4}, {"height", 3}};
  EXPECT_EQ(Extent("2*height-1").Evaluate(dims), 5);
  EXPECT_EQ(Extent("n*height").Evaluate(dims), 36);
  EXPECT_EQ(Extent("n/block").Evaluate(dims), 3);
  EXPECT_EQ(Extent("2*n/block/height+1").Evaluate(dims), 3);
  EXPECT_EQ(Extent("n/width").Evaluate(dims), std::nullopt);
  EXPECT_EQ(Extent("n/block").Evaluate({{"n", 12}, {"block", 0}}),
            std::nullopt);
  EXPECT_EQ(Extent("ceil(n/block)").Evaluate(dims), 3);
  EXPECT_EQ(Extent("ceil(n/block)").Evaluate({{"n", 13}, {"block", 4}}), 4);
  EXPECT_EQ(Extent("ceil(2*n/5)-1").Evaluate(dims), 4);
  EXPECT_EQ(Extent("ceil(n/5)").Symbols(), std::vector<std::string>{"n"});
  EXPECT_EQ(Extent("ceil(n/block)").Symbols(),
            (std::vector<std::string>{"n", "block"}));
  EXPECT_THROW(Extent("ceil(n/block"), std::logic_error);
  EXPECT_EQ(Extent("n/block").Symbols(),
            (std::vector<std::string>{"n", "block"}));
}

// A size in a product is found; one in a quotient is not, as several sizes give
// the same quotient.
TEST(Extent, SolvesForOneUnknown) {
  const auto product = Extent("block*b").Solve({{"block", 4}}, 12);
  EXPECT_EQ(product.symbol, "b");
  EXPECT_EQ(product.value, 3);
  EXPECT_EQ(Extent("block*b").Solve({{"block", 4}}, 13).value, std::nullopt);
  EXPECT_EQ(Extent("n/block").Solve({{"block", 4}}, 3).symbol, "");
  EXPECT_EQ(Extent("n/block").Solve({{"n", 12}}, 3).symbol, "");
  EXPECT_EQ(Extent("ceil(n/5)").Solve({}, 3).symbol, "");
}

}  // namespace
}  // namespace subquad
