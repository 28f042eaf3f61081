// Shapes in symbols: "n_q+n_k-1", "2*height-1", "height*width", "n/block"
// (whole blocks alone). One declaration per tensor serves to check shapes that
// were given, to find the sizes that they stand for, and to make the shapes of
// generated inputs.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace subquad {

using Shape = std::vector<int64_t>;
using Dims = std::map<std::string, int64_t>;

int64_t ElementCount(const Shape& shape);
std::string ToString(const Shape& shape);  // "[37, 6]"

// A sum of products of integers and symbols, each divided by symbols.
class Extent {
 public:
  explicit Extent(const std::string& expression);

  // Nothing when a symbol is not in `dims`.
  std::optional<int64_t> Evaluate(const Dims& dims) const;

  // When exactly one symbol is unknown, the value that makes the extent equal
  // to `size`: `symbol` is empty when there is not exactly one unknown or it
  // does not occur linearly; `value` is nothing when no integer solves it.
  struct Solution {
    std::string symbol;
    std::optional<int64_t> value;
  };
  Solution Solve(const Dims& dims, int64_t size) const;

  // Every symbol, as often as it occurs: n_q and n_k of "n_q+n_k-1"; those that
  // divide, too.
  std::vector<std::string> Symbols() const;

 private:
  struct Term {
    int64_t factor;
    std::vector<std::string> symbols, divisors;
  };
  std::vector<Term> terms_;
};

}  // namespace subquad
