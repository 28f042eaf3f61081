// Shapes in symbols: "n_q+n_k-1", "height*width", "n/block" (whole blocks),
// "ceil(n/block)" (all). One declaration per tensor is enough to check given
// shapes, to find the sizes behind them, and to make the shapes of generated
// inputs.
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

// A sum of products of integers and symbols, divided by either of them.
class Extent {
 public:
  explicit Extent(const std::string& expression);

  // Returns nothing if a symbol is not in `dims`.
  std::optional<int64_t> Evaluate(const Dims& dims) const;

  // Solves for the only unknown symbol so that the extent equals `size`.
  // `symbol` is empty unless exactly one symbol is unknown and occurs linearly;
  // `value` is empty if no integer solves it.
  struct Solution {
    std::string symbol;
    std::optional<int64_t> value;
  };
  Solution Solve(const Dims& dims, int64_t size) const;

  // Lists every symbol, including divisors, as often as it occurs: n_q and n_k
  // for "n_q+n_k-1".
  std::vector<std::string> Symbols() const;

 private:
  struct Term {
    int64_t factor;
    bool rounds_up = false;  // the quotient
    std::vector<std::string> symbols, divisors;
  };
  std::vector<Term> terms_;
};

}  // namespace subquad
